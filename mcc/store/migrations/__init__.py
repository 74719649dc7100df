"""The schema's history: one file per version, applied in order by alembic."""
