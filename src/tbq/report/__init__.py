"""Showing a result: findings, summary, pictures, the HTML page."""
