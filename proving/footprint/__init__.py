"""What an unused server costs."""
