"""The metrics, read by Prometheus."""
