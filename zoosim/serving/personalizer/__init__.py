"""The API of the hosted Personalizer service, so that its clients can call a service of their own instead."""
