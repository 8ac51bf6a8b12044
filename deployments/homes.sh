#!/bin/sh
# A rehearsal on one machine: three homes and a lead, each a user of its own with a folder closed to all others.
#
#     PYTHON=/opt/concord/bin/python deployments/homes.sh FOLDER
#
# Run it as root: users are mere numbers, which setpriv (util-linux) becomes; none is added to the machine. They must be
# able to reach FOLDER, which is made, and the Python that has Concord. The tables are made up, as the demonstration's.
# Between institutions, each runs its own `concord` lines at its own place.
set -eu
umask 022
mkdir "$1"
folder=$(realpath "$1") python=${PYTHON:-python3} homes="north south west"
agreed=$folder/agreed exchange=$folder/exchange # what all may read; where all may write

user_of() {
    case $1 in lead) echo 64001 ;; north) echo 64002 ;; south) echo 64003 ;; west) echo 64004 ;; esac
}
as() { # as NAME COMMAND…: with nothing of root's environment, and a umask that shows nobody anything
    own=$folder/$1 user=$(user_of "$1")
    shift
    (cd "$own" && umask 077 && exec setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs \
        env -i PATH="$PATH" PYTHONPATH="${PYTHONPATH:-}" LC_ALL=C.UTF-8 HOME="$own" TMPDIR="$own" \
        XDG_CACHE_HOME="$own/.cache" CONCORD_HOME="$own/concord" "$@")
}
concord() { # concord NAME ARGUMENTS…
    name=$1
    shift
    as "$name" "$python" -m concord "$@"
}
field() { "$python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
closed() { # each of the four may look into its own folder, and is denied the others'
    for one in lead $homes; do
        for other in lead $homes; do
            said=$(as "$one" ls "$folder/$other" 2>&1) && may=yes || may=no
            case "$one $other $may $said" in
                "$one $one yes "* | *" no "*"Permission denied") ;;
                *) echo "$one reads the folder of $other: $may: $said" && exit 1 ;;
            esac
        done
    done
    echo "closed       the four folders to one another"
}

# The tables: of each home its own, and a public one.
mkdir -m 755 "$agreed"
mkdir -m 1777 "$exchange" # sticky: nobody removes another's file
for name in lead $homes; do mkdir -m 700 "$folder/$name"; done
"$python" - "$folder" $homes <<'END'
import sys
from pathlib import Path
import numpy as np
from concord.tasks.advice.demo import stays, write_stays

folder, homes = Path(sys.argv[1]), sys.argv[2:]
write_stays(folder / "agreed")
(folder / "agreed/private.parquet").unlink()
for seed, home in enumerate(homes, 10):
    stays(1_000, np.random.default_rng(seed)).write_parquet(folder / home / "stays.parquet")
END
for name in lead $homes; do chown -R "$(user_of "$name"):$(user_of "$name")" "$folder/$name"; done

# The plan: each home prints its key, and all agree on the rest.
for name in lead $homes; do
    key=$(concord "$name" key --json | field key)
    [ "$name" = lead ] && lead=$key || keys="${keys:-}\"$key\", "
done
closed
cat >"$agreed/plan.toml" <<END
data = { public = "public.parquet", test = "test.parquet", label = "readmitted", classes = ["no", "yes"], unit = "patient" }
privacy = { domain = "hospitals", epsilon = 1.0, delta = 1e-6, lifetime = { epsilon = 4.0, delta = 4e-6 } }
labeling = { mechanism = "tallies", rows = 3_000 }
homes = { names = ["north", "south", "west"], keys = [$keys], lead = "$lead", people = "in one home", tick = 1, public = "$(
    sha256sum "$agreed/public.parquet" | cut -c -64)" }
END

# Rounds: the lead asks, the homes answer, until the lead has published.
while led=$(concord lead lead "$agreed/plan.toml" --exchange "$exchange" --json) || exit 1; do
    [ "$(echo "$led" | field published)" = True ] && break
    for name in $homes; do
        concord "$name" contribute "$agreed/plan.toml" --exchange "$exchange" --private stays.parquet --as "$name" --yes
    done
done
closed
as lead cp -r "$(dirname "$(echo "$led" | field certificate)")" "$exchange/published"
as lead chmod -R a+rX "$exchange/published"
concord west verify "$exchange/published" --key "$lead"
