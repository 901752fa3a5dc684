"""The one public way to speak to a broker."""
