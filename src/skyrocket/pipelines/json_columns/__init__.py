"""JSON bodies as typed columns, for the jobs `table` and `archive`. Pure, but for `sample`.

column_kinds   the types that a column can have: in JSON, Arrow and Spark
json_schema    which columns there are: by a JSON Schema, or by inference from bodies
sample         the newest messages, from which columns are inferred
documents      a body to values of these columns; what has no column, or does not fit, is kept beside them
body_columns   these values as columns beside the raw bodies of messages
drift          which fields have left the columns, counted
"""
