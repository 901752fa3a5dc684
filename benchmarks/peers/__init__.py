"""The same job on RQ and Celery, run by an interpreter that has them installed."""
