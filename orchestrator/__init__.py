"""What was asked for, what is left to do, what came back: spec, plan, store, scheduler, tracker, command line."""

from orchestrator.siblings import keep_siblings_together

keep_siblings_together()
