"""Prompts after RULER (arXiv 2404.06654): what must be found in a long text, and the strings that answer."""
