"""Parallel text from the messages of programs: gettext's compiled catalogues in Debian's packages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from moses_bridge.corpus.deb_files import files_of_deb
from moses_bridge.corpus.gettext_catalogue import MessageKey, compiled_messages
from moses_bridge.corpus.message_text import NO_MESSAGES, message_pairs, without_context
from moses_bridge.corpus.package_descriptions import sentence_pairs
from moses_bridge.corpus.text_pair import TextPair

# Programs of all kinds with many messages, translated into many languages, in packages of less than 2.5 MB.
PACKAGES = """
aisleriot apt aptitude-common aria2 atril-common audacious-plugins-data backintime-common
baobab bash bison bleachbit blueman brasero-common caja-common calcurse calligrawords-data
cheese-common claws-mail-i18n cpio cryptsetup-bin deja-dup diffutils dpkg e2fsprogs-l10n
easytag engrampa-common eog epiphany-browser-data evince-common
evolution-data-server-common file-roller findutils flatpak fontforge-common gawk
gedit-common geeqie-common gettext gftp-common gitg gnome-boxes gnome-calculator
gnome-calendar gnome-commander-data gnome-disk-utility gnome-settings-daemon-common
gnome-shell-common gnome-software-common gnome-system-monitor gnome-terminal-data
gnumeric-common gnupg-l10n gparted-common gpodder grep gthumb-data gvfs-common
gwyddion-common hexchat-common homebank-data kaddressbook-data kdeconnect kdepim-addons
kdeplasma-addons-data kdevelop-l10n kile-l10n kio-extras-data kipi-plugins-common konsole
ktexteditor-data ktorrent-data libc-l10n libglib2.0-data libgphoto2-l10n libgtk-4-common
libparted-i18n liferea-data lynx-common mailutils-common make man-db
mate-control-center-common mate-panel-common mc-data meld mutt nano nautilus-data newsboat
okteta onboard-common orca picard pluma-common poedit-common rednotebook remmina-common
rhythmbox-data rkward-data rpm-i18n seahorse shotwell-common simple-scan solfege
sssd-common subversion sudo sylpheed-i18n synaptic sysstat tar tellico-data terminator
texinfo thunar-data timeshift totem-common transmission-gtk util-linux-locales virtinst
weechat-core wget xboard xfce4-panel xfce4-settings xsane-common yelp zim
"""
CATALOGUE = re.compile(r"usr/share/locale/([^/]+)/LC_MESSAGES/([^/]+)\.mo$")
ORIGINAL = "en"  # the language of the messages themselves
MOST_MESSAGES = 300  # of a catalogue, so that no program fills a part of the corpus

Texts = dict[MessageKey, str]


def program_packages(offered: Collection[str]) -> list[str]:
    """Names of the packages whose messages are read, of those that an archive offers."""
    return [name for name in PACKAGES.split() if name in offered]


def program_pairs(
    debs: Sequence[Path], source: str, target: str, dropped: Counter[str]
) -> Iterator[TextPair]:
    """Yield the sentences of the messages translated into both languages; a catalogue is a group.

    Catalogues are in the order of their names. English is the language of the messages themselves. Of a
    large catalogue, 300 messages are drawn.

    Args:
        debs: the packages.
        source: source language code.
        target: target language code.
        dropped: counts the messages over 300 of their catalogue.

    Raises:
        InputError: a catalogue is malformed.
        ToolError: dpkg-deb cannot read a package.
    """
    catalogues: defaultdict[str, dict[str, Texts]] = defaultdict(dict)
    for deb in debs:
        for match, data in files_of_deb(deb, CATALOGUE):
            language, name = match.groups()
            if language in (source, target):
                texts = compiled_messages(data, deb / match[0])
                catalogues[name].setdefault(language, texts)
    for name, by_language in sorted(catalogues.items()):
        messages = _messages(by_language, source, target)
        drawn = sorted(messages, key=_random_key)[:MOST_MESSAGES]
        dropped[f"over {MOST_MESSAGES} of a catalogue"] += len(messages) - len(drawn)
        for key in sorted(drawn):
            for left, right in message_pairs(*messages[key]):
                yield from sentence_pairs(name, left, right, source, target)


def _messages(
    by_language: dict[str, Texts], source: str, target: str
) -> dict[MessageKey, tuple[str, str]]:
    """The messages of a catalogue in both languages."""
    translated = [language for language in (source, target) if language != ORIGINAL]
    if not all(language in by_language for language in translated):
        return {}
    found: dict[MessageKey, tuple[str, str]] = {}
    for key in set.intersection(*(set(by_language[language]) for language in translated)):
        if key[1] not in NO_MESSAGES:
            texts: dict[str, str] = {}
            for language in translated:
                pair = without_context(key[1], by_language[language][key])
                texts[ORIGINAL], texts[language] = pair
            found[key] = texts[source], texts[target]
    return found


def _random_key(key: MessageKey) -> bytes:
    return blake2b("\t".join(key).encode(), digest_size=16).digest()
