"""Translate PostgreSQL's catalogue queries into DuckDB's SQL over the catalogue's own tables.

An allowlist: tables, functions and kinds of statements that are not listed are refused, so that nothing of DuckDB's own
can be reached.

PostgreSQL's functions that clients call are DuckDB macros. In a macro, `cat` is the schema of the catalogue's own
tables, and facts of the session are variables. A macro is expanded as text, so its parameters begin with `the_` and the
columns it reads with `m_`: a column passed as an argument must not be taken for one of the macro's own.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sfumato.serve.pgwire.protocol import NO_FUNCTION, NO_TABLE, READ_ONLY, TOO_LARGE, UNSUPPORTED, Failure
from sfumato.serve.pgwire.settings import FIRST, SERVER_VERSION
from sfumato.version import __version__

PREFIX = "pg__"  # of macros, so that none is taken for a function of DuckDB's own
VERSION = f"PostgreSQL {SERVER_VERSION} (Sfumato {__version__}: releases with error columns, read-only)"

_ANYTHING = "(a := '', b := '', c := '', d := '')"
_CONSTANT = {
    "true": """has_any_column_privilege has_column_privilege has_database_privilege has_schema_privilege
        has_table_privilege has_sequence_privilege has_function_privilege pg_has_role pg_table_is_visible
        pg_type_is_visible pg_function_is_visible pg_collation_is_visible pg_opclass_is_visible pg_operator_is_visible
        pg_statistics_obj_is_visible pg_opfamily_is_visible pg_conversion_is_visible pg_ts_config_is_visible""",
    "false": """pg_is_in_recovery pg_is_other_temp_schema pg_relation_is_publishable row_security_active""",
    "NULL::VARCHAR": """pg_get_expr pg_get_constraintdef pg_get_indexdef pg_get_viewdef pg_get_ruledef pg_get_triggerdef
        pg_get_functiondef pg_get_function_result pg_get_function_arguments pg_get_function_identity_arguments
        pg_get_partkeydef pg_get_serial_sequence pg_get_statisticsobjdef pg_get_statisticsobjdef_columns
        pg_tablespace_location shobj_description pg_relation_filepath inet_server_addr inet_client_addr
        pg_advisory_unlock_all""",
    "NULL::BIGINT": "pg_partition_ancestors",
    "0::BIGINT": """pg_relation_size pg_total_relation_size pg_table_size pg_indexes_size pg_database_size
        pg_tablespace_size pg_my_temp_schema inet_server_port age""",
    "'UTF8'": "pg_encoding_to_char pg_client_encoding getdatabaseencoding",
    "'curator'": "pg_get_userbyid",
    "'public'": "current_schema",
    "'2000-01-01 00:00:00'": "pg_postmaster_start_time pg_conf_load_time",
    "1::BIGINT": "pg_backend_pid array_lower",
    "getvariable('database')": "current_database current_catalog",
    "getvariable('user')": "current_user session_user user current_role",
}
_LAST = r"""CASE WHEN the_name LIKE '%"' THEN replace(regexp_extract(the_name, '"((?:[^"]|"")*)"$', 1), '""', '"')
    ELSE lower(regexp_extract(the_name, '[^.]*$')) END"""
_TYPE_NAME = """CASE WHEN the_type IS NULL THEN NULL
    ELSE coalesce((SELECT m_text FROM cat.m_types WHERE m_number = the_type), '???') END"""
_IDENTIFIER = """CASE WHEN regexp_full_match(the_name, '[a-z_][a-z0-9_]*') THEN the_name
    ELSE '"' || replace(the_name, '"', '""') || '"' END"""
_SETTING = "(SELECT m_text FROM cat.m_settings WHERE m_name = lower(the_name))"
_DESCRIPTION = "(SELECT m_text FROM cat.m_descriptions WHERE m_number = the_oid AND m_place = {})"


def _number(table: str) -> str:
    """SQL for the object number (OID) of a name in a table."""
    of_name = f"(SELECT m_number FROM cat.m_{table} WHERE m_text = cat.pg__last(the_name::VARCHAR))"
    return f"coalesce(try_cast(the_name AS BIGINT), {of_name})"


def _name(table: str) -> str:
    """SQL for the name of an object number (OID) in a table."""
    return f"coalesce((SELECT m_text FROM cat.m_{table} WHERE m_number = the_oid), the_oid::VARCHAR)"


_OTHERS = {
    "last(the_name)": _LAST,
    "version()": f"'{VERSION}'",
    "current_schemas(the_choice)": "CASE WHEN the_choice THEN ['pg_catalog', 'public'] ELSE ['public'] END",
    "current_setting(the_name, the_choice := false)": _SETTING,
    "set_config(the_name, the_value, the_choice)": "the_value",
    "pg_size_pretty(the_size)": "the_size::VARCHAR || ' bytes'",
    "obj_description(the_oid, the_name := '')": _DESCRIPTION.format("0"),
    "col_description(the_oid, the_place)": _DESCRIPTION.format("the_place"),
    "format_type(the_type, the_modifier)": _TYPE_NAME,
    "to_regclass(the_name)": _number("pg_class"),
    "to_regtype(the_name)": _number("pg_type"),
    "to_regnamespace(the_name)": _number("pg_namespace"),
    "regclass_name(the_oid)": _name("pg_class"),
    "regnamespace_name(the_oid)": _name("pg_namespace"),
    "regtype_name(the_oid)": _TYPE_NAME.replace("the_type", "the_oid"),
    "quote_ident(the_name)": _IDENTIFIER,
    "quote_literal(the_text)": "'''' || replace(the_text, '''', '''''') || ''''",
    "array_to_string(the_list, the_text)": "list_aggregate(the_list, 'string_agg', the_text)",
    "array_length(the_list, the_place)": "len(the_list)",
    "array_upper(the_list, the_place)": "len(the_list)",
    "array_position(the_list, the_value)": "list_position(the_list, the_value)",
    "generate_subscripts(the_list, the_place)": "unnest(range(1, len(the_list) + 1))",
    "_pg_expandarray(the_list)": "{'x': 0::BIGINT, 'n': 0::BIGINT}",
    "format(the_form, the_value := '', the_other := '')": """regexp_replace(
        regexp_replace(the_form, '%[sIL]', the_value), '%[sIL]', the_other)""",
    "cardinality(the_list)": "len(the_list)",
    "pg_char_to_encoding(the_name)": "6::BIGINT",
}


VIEWS = {
    "pg_class": """SELECT oid AS m_number, relname AS m_text FROM cat.pg_class UNION ALL VALUES (1259, 'pg_class'),
        (1247, 'pg_type'), (1249, 'pg_attribute'), (1255, 'pg_proc'), (1262, 'pg_database'), (2606, 'pg_constraint'),
        (2615, 'pg_namespace'), (2604, 'pg_attrdef'), (2618, 'pg_rewrite'), (2620, 'pg_trigger')""",
    "pg_type": "SELECT oid AS m_number, typname AS m_text FROM cat.pg_type",
    "pg_namespace": "SELECT oid AS m_number, nspname AS m_text FROM cat.pg_namespace",
    "types": """SELECT t.oid AS m_number, n.sql_name || CASE WHEN t.typcategory = 'A' THEN '[]' ELSE '' END AS m_text
        FROM cat.pg_type AS t JOIN cat.type_names AS n
        ON n.oid = CASE WHEN t.typelem = 0 THEN t.oid ELSE t.typelem END""",
    "descriptions": "SELECT objoid AS m_number, objsubid AS m_place, description AS m_text FROM cat.pg_description",
    "settings": "SELECT lower(name) AS m_name, min(setting) AS m_text FROM cat.pg_settings GROUP BY m_name",
}


def macros() -> dict[str, str]:
    """Definition of each function's macro, by its signature."""
    return _OTHERS | {name + _ANYTHING: value for value, listed in _CONSTANT.items() for name in listed.split()}


NAMES = frozenset(call.partition("(")[0] for call in macros())


SCHEMAS = ("", "pg_catalog", "information_schema")
_SAFE = """abs and any all array arrayagg avg between bitwiseand bitwiseor case cast ceil coalesce concat concatws count
    currentdate dpipe exists explode floor greatest groupconcat if in initcap least left length like ilike lower max min
    mod not nullif or regexpilike regexplike replace right round rownumber rtrim similarto split stringposition
    strposition substring sum trim upper unnest xor generateseries explodinggenerateseries stringtoarray
    currenttimestamp arraycontains arraycontainsall arrayoverlaps logicaland logicalor md5 splitpart
    arrayconcat rank anyvalue trycast chr ascii arraysize posexplode extract timestamptrunc reverse lag lead
    firstvalue"""
OWN = {  # that have a class of their own in the syntax tree
    "currentuser": "current_user",
    "sessionuser": "session_user",
    "currentcatalog": "current_catalog",
    "currentdatabase": "current_database",
    "currentschema": "current_schema",
    "currentschemas": "current_schemas",
    "currentrole": "current_role",
    "version": "version",
    "currentversion": "version",
    "formattype": "format_type",
    "arraytostring": "array_to_string",
    "arrayposition": "array_position",
    "quoteident": "quote_ident",
    "quoteliteral": "quote_literal",
}
_NOTHING = ("json_build_object", "jsonb_build_object", "row_to_json", "to_json", "json_agg", "jsonb_agg")
_WHOLE = ("oid", "xid", "cid", "int2", "int4", "int8", "smallint", "integer", "int", "bigint")
_TYPES = {
    **dict.fromkeys(_WHOLE, "BIGINT"),
    **dict.fromkeys((*(f"{name}[]" for name in _WHOLE), "int2vector", "oidvector"), "BIGINT[]"),
    **dict.fromkeys(("boolean", "bool"), "BOOLEAN"),
    **dict.fromkeys(("double precision", "float8", "real", "numeric", "decimal", "float"), "DOUBLE"),
    **dict.fromkeys(("text[]", "name[]", "varchar[]", "aclitem[]", "char[]"), "VARCHAR[]"),
}
_OBJECTS = ("regclass", "regtype", "regnamespace")
_FUNCTIONS = ("typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze")


def translate(tree: exp.Expression, known: frozenset[str]) -> exp.Expression:
    """Translate a statement to the tables of schema `cat`. known: the tables that there are."""
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery | exp.Values):
        raise Failure(UNSUPPORTED, "only SELECT is understood here", "ask with SELECT")
    if any(isinstance(node, exp.DML | exp.DDL | exp.Command | exp.Lock | exp.Into) for node in tree.walk()):
        raise Failure(READ_ONLY, "releases are only read, nothing can be written or locked", "ask with SELECT")
    tree = tree.copy()
    _refuse_growth(_all(tree, exp.Replace))
    made = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for node in _all(tree, exp.Collate):
        node.replace(node.this)
    _qualified_functions(tree)
    for node in _all(tree, exp.Table):
        _table(node, known, made)
    for node in _all(tree, exp.Func):
        _function(node)
    for node in _all(tree, exp.Operator):
        _operator(node)
    for node in reversed(_all(tree, exp.Cast)):
        _cast(node)
    for node in _all(tree, exp.Div):
        if not any(one.is_number and not one.is_int for one in node.find_all(exp.Literal)):
            node.replace(exp.IntDiv(this=node.this, expression=node.expression))
    for node in _all(tree, exp.EQ) + _all(tree, exp.NEQ):
        _procedure(node)
    for node in _all(tree, exp.Column):
        _column(node)
    return tree


def _all(tree: exp.Expression, kind: Any) -> list[Any]:
    return list(tree.find_all(kind))


def _refuse_growth(replaced: list[Any]) -> None:
    """Refuse functions that make a text thousands of times longer, such as repeated replacement of a letter."""
    texts = [node.args.get("replacement") for node in replaced]
    apart = all(node.find_ancestor(exp.Replace) is None for node in replaced)
    longest = 16 if len(texts) <= 3 else 2 if len(texts) <= 16 and apart else -1
    if any(text is None or text.key != "literal" or len(text.name) > longest for text in texts):
        raise Failure(TOO_LARGE, "too much is replaced here", "put in short texts, and few of them")


def _qualified_functions(tree: Any) -> None:
    """Read pg_catalog.f(...), which is parsed as a field of pg_catalog, as f(...)."""
    for dot in _all(tree, exp.Dot):
        if isinstance(dot.expression, exp.Func) and dot.this.name.lower() in SCHEMAS:
            dot.replace(dot.expression)


def _table(node: Any, known: frozenset[str], made: set[str]) -> None:
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() in known:  # a function that gives rows
        node.set("this", exp.to_identifier(node.this.name.lower()))
    if isinstance(node.this, exp.Func):  # which is looked at among the functions; its rows are called as it is
        node.set("db", None)
        if node.alias and not node.args["alias"].args.get("columns"):
            node.args["alias"].set("columns", [exp.to_identifier(node.alias)])
        if isinstance(node.this, exp.StringToArray):  # one value, which is one row
            node.replace(exp.select(node.this).subquery(node.args["alias"]))
        return
    name, schema = node.name.lower(), node.db.lower()
    if not schema and name in made:
        return
    whole = f"{schema}.{name}" if schema == "information_schema" else name
    if schema not in SCHEMAS or whole not in known or not isinstance(node.this, exp.Identifier):
        raise Failure(
            NO_TABLE, f"there is no table {node.name[:63]!r} here", r"\dt lists them, as does information_schema.tables"
        )
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
    node.set("this", exp.to_identifier(whole, quoted=True))
    node.set("db", exp.to_identifier("cat"))
    node.set("catalog", None)


def _function(node: Any) -> None:
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name == "all":
            return
        if name in _NOTHING:
            node.replace(exp.cast(exp.Null(), "text"))
            return
    elif node.key in OWN:
        name = OWN[node.key]
    elif node.key in _SAFE.split():
        return
    else:
        name = node.sql_name().lower()
    if name not in NAMES:
        hint = "ask releases with SELECT ... FROM their tables"
        raise Failure(NO_FUNCTION, f"there is no function {name[:63]!r} here", hint)
    given = [arg for value in node.args.values() for arg in (value if isinstance(value, list) else [value])]
    given = [arg for arg in given if isinstance(arg, exp.Expression)]
    if name.endswith(("_setting", "_config")) and given and given[0].name.lower().startswith("sfumato."):
        raise Failure(UNSUPPORTED, "settings of this server are no matter of functions", "write SET, or SHOW")
    if name == "current_setting" and isinstance(given[0], exp.Literal):  # known, also where no subquery may stand
        node.replace(exp.Literal.string(FIRST[given[0].name.lower()]) if given[0].name.lower() in FIRST else exp.Null())
        return
    node.replace(_call(name, *given))


def _call(name: str, *given: Any) -> Any:
    return exp.Dot(this=exp.to_identifier("cat"), expression=exp.Anonymous(this=PREFIX + name, expressions=list(given)))


def _operator(node: Any) -> None:
    """Read a OPERATOR(pg_catalog.~) b as the plain operator."""
    sign = str(node.args["operator"]).rpartition(".")[2].strip()
    found = {"~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "<>": exp.NEQ, "~~": exp.Like}
    if sign.removeprefix("!") not in found:
        raise Failure(UNSUPPORTED, "this operator is not known here", "ask with SELECT")
    new = found[sign.removeprefix("!")](this=node.this, expression=node.expression)
    node.replace(exp.Not(this=exp.Paren(this=new)) if sign.startswith("!") else new)


def _cast(node: Any) -> None:
    kind = node.args["to"].sql(dialect="postgres").lower().replace('"', "").removeprefix("pg_catalog.")
    if kind in _OBJECTS:
        inner, around = node.this, node.parent
        number = isinstance(around, exp.Cast) and around.args["to"].sql(dialect="postgres").lower() in ("oid", "bigint")
        named = isinstance(inner, exp.Literal) and inner.is_string
        name = f"to_{kind}" if number or named else f"{kind}_name"
        node.replace(_call(name, inner))
        return
    kind = kind.partition("(")[0] if not kind.endswith("[]") else kind
    if kind.endswith("[]") and isinstance(node.this, exp.Literal) and node.this.name.startswith("{"):
        texts = [text.strip('" ') for text in node.this.name.strip("{}").split(",") if text]
        node.set("this", exp.Array(expressions=[exp.Literal.string(text) for text in texts]))
    node.set("to", exp.DataType.build(_TYPES.get(kind, "VARCHAR"), dialect="duckdb"))


def _procedure(node: Any) -> None:
    """Rewrite comparisons of a function's number (regproc as oid) to comparisons of its name, which the catalogue has.

    The name of no function, whose number is 0, is `-`.
    """
    for side, other in ((node.this, "expression"), (node.expression, "this")):
        number = node.args[other]
        if not isinstance(side, exp.Column) or side.name.lower() not in _FUNCTIONS:
            continue
        if isinstance(number, exp.Literal) and number.name == "0":
            number.replace(exp.Literal.string("-"))
        elif isinstance(number, exp.Column) and number.name.lower() == "oid":
            number.set("this", exp.to_identifier("proname"))


def _column(node: Any) -> None:
    """Read pg_catalog.pg_class.oid as pg_class.oid; tables are called by their last name."""

    if node.name.lower() == "user" and not node.table and not node.this.args.get("quoted"):
        node.replace(_call("user"))
    elif node.args.get("db"):
        node.set("db", None)
        node.set("catalog", None)
