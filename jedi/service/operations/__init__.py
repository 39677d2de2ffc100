"""The operations of the service, one a function, in one table."""
