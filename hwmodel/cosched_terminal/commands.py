"""Commands: functions whose parameters are their options, in modules that are imported when the command line names them.

The annotation of a parameter says what its option takes: a flag (bool), a number, a path, nothing (``| None``), or several values
(tuple). `option` or `argument`, its default, says the rest. A record (NamedTuple) of such fields, and `several` options, become
one argument. A module of commands imports what its commands work with in their functions: a help pays for no more than click.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from os import PathLike
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from cosched_terminal.help_text import Command, Group, Option, entitle, summary_of

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
    Kind: TypeAlias = _ParamType | type | Sequence[str] | None
else:  # older releases of click do not export the generic type
    _ParamType = click.ParamType

NO_TITLES: Final[Mapping[str, str]] = MappingProxyType({})
# What a command prints: texts, or tables; tables again and again; tables at the end of its work, which wait for nobody.
TEXT, TABLES, RESULT = "text", "tables", "result"
_TABLES: Final = "Tables"  # title of these options
_WIDTH: Final = 8  # width of a name, so that the helps of all groups begin in one column


class LazyGroup(Group):
    """A group that prints its help from ``table``, and imports the command that is called.

    The table maps the title of a group of commands in the help to name -> (module of ``package``, help in one line).
    """

    def __init__(self, package: str, table: Mapping[str, Mapping[str, tuple[str, str]]], **settings: Any) -> None:
        self._package = package
        self._table = table
        self._module_of = {name: module for rows in table.values() for name, (module, _) in rows.items()}
        summaries = [click.Command(name, help=text) for rows in table.values() for name, (_, text) in rows.items()]
        super().__init__(commands=summaries, **settings)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - signature of click
        """Write the commands, group by group, in the order of the table."""
        for title, rows in self._table.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{_WIDTH}}", summary_of(self.commands[name])) for name in rows])

    def load(self, name: str) -> click.Command:
        """Return a command with its options, which the module has under the same name."""
        command: click.Command = getattr(import_module(f"{self._package}.{self._module_of[name]}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name, the command and the rest of the arguments of a command line."""
        name, summary, rest = super().resolve_command(ctx, args)
        return name, self.load(name) if name is not None and summary is not None else None, rest


class Misread(click.BadParameter):
    """A value that an option does not accept."""

    def __init__(self, expected: str, got: str, context: click.Context | None, option: click.Parameter | None) -> None:
        super().__init__(f"expected {expected}, got {got!r}", context, option)
        self.expected = expected
        self.got = got


class Reader(_ParamType):
    """A kind of values: ``read`` turns text into one, or raises ValueError with the expected form."""

    name = "value"

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of an option's text."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            raise Misread(str(error), value, ctx, param) from None


class Values:
    """What a shell offers for an option or an argument: ``path``, MODULE:FUNCTION, yields (value, help) for what is typed.

    The function has the typed text and the context of click, and is imported when a shell asks. ``files``: also files ("file"), or
    folders ("dir"). What it raises is nothing to a shell: then it has no values.
    """

    def __init__(self, path: str, files: str = "") -> None:
        self._path = path
        self._files = files

    def __call__(self, context: click.Context, _option: click.Parameter, typed: str) -> list[Any]:
        """Return the values that begin as typed."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - a shell asks

        module, _, function = self._path.partition(":")
        with suppress(Exception):
            offered = getattr(import_module(module), function)(typed, context)
            items = [CompletionItem(value, help=text or None) for value, text in offered if value.startswith(typed)]
            return items or [CompletionItem(typed, type=self._files)] if self._files else items
        return []


class _Declared(NamedTuple):
    """An option, or an argument, but for what its parameter says: the name, and the type of the values."""

    make: type[click.Parameter]
    words: str
    kind: Kind
    settings: dict[str, Any]

    def parameter(self, name: str, hint: Any) -> click.Parameter:
        """Return click's parameter for one of a function with this name and annotation."""
        optional = NoneType in get_args(hint)
        if optional:
            hint = next(each for each in get_args(hint) if each is not NoneType)
        many = get_origin(hint) is tuple
        words = self.words.split()
        names = [word for word in words if word.startswith("-")]
        settings: dict[str, Any] = {"metavar": " ".join(words[len(names) :]) or None}
        if hint is bool:
            settings |= {"is_flag": True, "default": None if optional else False}
        else:
            kind = self.kind or (get_args(hint)[0] if many else hint)
            if isinstance(kind, Sequence):
                kind = click.Choice(kind)
            elif isinstance(kind, type) and issubclass(kind, PathLike):
                kind = click.Path(path_type=kind)
            settings["type"] = kind
            if self.make is click.Argument:
                settings |= {"nargs": -1 if many else 1, "required": not optional}
            else:
                settings |= {"multiple": many, "required": not (optional or many or "default" in self.settings)}
        return self.make([*names, name], **{**settings, **self.settings})


class _Several(NamedTuple):
    """Options whose values are one argument: a dictionary, unless ``make`` is a record."""

    options: Sequence[click.Parameter]
    make: Callable[..., object] = dict

    def taken_from(self, values: dict[str, Any]) -> object:
        """Take the values of these options out of those of a command line, and return the argument."""
        return self.make(**{str(each.name): values.pop(each.name, None) for each in self.options if each.expose_value})


def option(words: str, text: str, kind: Kind = None, default: Any = None, **settings: Any) -> Any:
    """Return what makes a parameter of a command an option, as its default.

    ``words`` are its names and the word for its value, such as ``-o --out FILE``; ``text`` is its help. ``kind`` gives bounds, or
    the choices. The option is needed if it has no default and the annotation is not optional. ``settings`` are further ones of
    click, and ``title``: the group of options in the help to which it belongs.
    """
    if default is not None:
        settings |= {"default": default, "show_default": default != ""}
    return _Declared(Option, words, kind, {"help": text, **settings})


def argument(words: str = "", kind: Kind = None, **settings: Any) -> Any:
    """Return what makes a parameter of a command an argument; ``words`` name it in the help, if not by its own name."""
    return _Declared(click.Argument, words, kind, settings)


def several(options: Sequence[click.Parameter]) -> Any:
    """Return what makes a parameter of a command the values of these options, by their names."""
    return _Several(options)


def command(
    group: click.Group | None = None,
    *,
    name: str = "",
    cls: type[click.Command] = Command,
    titles: Mapping[str, str] = NO_TITLES,
    prints: str = "",
    **settings: Any,
) -> Callable[[Callable[..., object]], click.Command]:
    """Return the decorator that makes a command of a function, whose documentation is the help; it is added to ``group``.

    An option of the function's own replaces one of the same name among several that are one argument. ``titles`` of groups of
    options in the help map to the names of the function's parameters in them, separated by blanks. ``prints``: `TEXT`,
    `TABLES` or `RESULT`, for a person as `screen` says.
    """

    def make(function: Callable[..., object]) -> click.Command:
        declared = inspect.signature(function, eval_str=True).parameters.values()
        given = {each.name: _read(each.name, each.annotation, each.default) for each in declared}
        joined = {each: one for each, one in given.items() if isinstance(one, _Several)}
        own = {word for one in given.values() if isinstance(one, click.Parameter) for word in one.opts}
        parameters: list[click.Parameter] = []
        for one in given.values():
            of_one = [one] if isinstance(one, click.Parameter) else one.options
            parameters += [each for each in of_one if each is one or own.isdisjoint(each.opts)]
        shows = [each for each in table_options(prints) if own.isdisjoint(each.opts)]
        parameters += shows
        for title, names in titles.items():
            for each in names.split():
                entitle(title, [given[each]])

        @wraps(function)
        def call(**values: Any) -> object:
            asked = {"wide": values.get("wide"), **{str(each.name): values.pop(str(each.name)) for each in shows}}
            arguments = {each: one.taken_from(values) for each, one in joined.items()} | values
            if not prints:
                return function(**arguments)
            as_json = bool(click.get_current_context().params.get("as_json"))
            from cosched_terminal.screen import show  # noqa: PLC0415 - a help must not pay for it

            return show(lambda: function(**arguments), asked, as_json=as_json, waits=prints != RESULT)

        text = inspect.getdoc(function)
        made = cls(name or function.__name__, callback=call, params=parameters, help=text, **settings)
        if group is not None:
            group.add_command(made)
        return made

    return make


def table_options(prints: str) -> list[Option]:
    """Return the options of a command that prints this: which columns, in which order."""
    if prints in ("", TEXT):
        return []
    return [
        Option(
            ["-o", "--format", "columns"],
            metavar="NAMES",
            help="Show these columns, such as jobid,name.",
            callback=_names,
            title=_TABLES,
        ),
        Option(
            ["-S", "--sort", "order"],
            metavar="NAMES",
            help="Sort by these columns; -NAME: the largest first.",
            callback=_names,
            title=_TABLES,
        ),
        Option(
            ["--wide"],
            is_flag=True,
            help="Show all columns, whatever their width; the default in a pipe.",
            title=_TABLES,
        ),
    ]


def _names(_context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    names = tuple([name.strip() for name in (value or "").split(",")]) if value is not None else ()
    if not all(names):
        raise click.BadParameter("expected names of columns, several after commas", param=option)
    return names


def given_options() -> list[str]:
    """Return the options of the running command that its command line names, in the order of the help."""
    context = click.get_current_context()
    named = [each for each in context.command.params if isinstance(each, click.Option)]
    return [
        each.opts[-1] for each in named if context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
    ]


def _read(name: str, hint: Any, default: Any) -> click.Parameter | _Several:
    """Return what a parameter of a command declares; one without a default is a record, whose fields are options."""
    if isinstance(default, _Declared):
        return default.parameter(name, hint)
    if isinstance(default, click.Parameter | _Several):
        return default
    hints = get_type_hints(hint)
    return _Several([hint._field_defaults[each].parameter(each, hints[each]) for each in hint._fields], hint)
