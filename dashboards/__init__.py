"""What people look at: reports and figures. Pure drawing: it is given tables and dataclasses and knows no database."""
