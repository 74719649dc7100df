"""This room is for the schema's history: one file per version, applied in order by alembic."""
