"""The metrics, as Prometheus reads them."""
