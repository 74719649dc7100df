"""What a turn may still spend, and what each of its agents may."""
