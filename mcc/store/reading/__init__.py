"""What people read of orders and write beside them: journals in short, and drafts."""
