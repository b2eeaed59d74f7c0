"""The console: pages for a browser that show what a broker holds. It lies above `ottla.control`, whose door serves it."""
