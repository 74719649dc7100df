"""AgentDojo's tasks with a model that obeys every injection: what permission alone holds back."""
