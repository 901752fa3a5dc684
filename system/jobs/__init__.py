"""The job driver that an application uses: jobs, dispatch, attempts, failed-job store."""
