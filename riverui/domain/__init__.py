"""What jobs, queues, schedules and retries are: plain data and calculations, without input or
output.
"""
