"""The service's pages: functions that turn what they are given into HTML. They know no database and no request."""
