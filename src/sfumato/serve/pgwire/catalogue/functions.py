"""The functions of PostgreSQL that clients call when they look around, as macros; every other one is refused.

In a macro, `cat` is the schema of the catalogue's own tables, and what a session is about stands in variables. What a
macro is given begins with `the_` and what it reads with `m_`: it is put into a statement as text is, and a column that
it is given must not be taken for one of its own.
"""

from __future__ import annotations

from sfumato.serve.pgwire.settings import SERVER_VERSION
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
    """Of what has a name."""
    of_name = f"(SELECT m_number FROM cat.m_{table} WHERE m_text = cat.pg__last(the_name::VARCHAR))"
    return f"coalesce(try_cast(the_name AS BIGINT), {of_name})"


def _name(table: str) -> str:
    """Of what has a number."""
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
    """What defines each function, by how it is called."""
    return _OTHERS | {name + _ANYTHING: value for value, listed in _CONSTANT.items() for name in listed.split()}


NAMES = frozenset(call.partition("(")[0] for call in macros())
