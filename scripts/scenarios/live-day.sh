#!/usr/bin/env bash
# A day with a live manager: submit scripts, arrays and chains of jobs, hold, drain, cancel, wait, and show the history.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cd "$scratch"
live_manager --speed 600 --nodes 4 --node rua-4way --db day.db
live_plugin plugin easy
cat >solver.sh <<'SCRIPT'
#!/bin/bash
#SBATCH --job-name=solver
#SBATCH --ntasks=8
#SBATCH --time=1:00:00
#COSCHED --run 1800
srun ./solver
SCRIPT

shown submit solver.sh                                             # job 1
shown submit -J sweep -n 2 -t 20 --run 900 --array 0-5%2           # jobs 2 to 7
shown cancel 2_5
shown submit -J report -n 1 -t 10 --run 60 --dependency afterok:1  # job 8
shown submit -J later -n 4 -t 30 --run 300 --hold                  # job 9
shown submit -J wide -n 16 -t 30 --run 600 --dependency afterany:9 # job 10 takes the whole machine
shown submit -J broken -n 1 -t 5 --run 60 --exit-code 3 --hold     # job 11
shown submit -J never -n 1 --dependency afterok:11                 # job 12
shown hold 10
shown queue
shown release 9 10 11
shown drain 3 --reason "new fans"
shown nodes --long
refused "it is drained already" drain 3
shown resume 3
shown nodes
shown job 1
shown top --once
shown wait 1 8 9 10 --timeout 60
refused "11 FAILED" wait 11 12 --timeout 60
refused "2_5 CANCELLED" wait 2 --timeout 60
shown history
ended_as "COMPLETED*6" CANCELLED "COMPLETED*3" FAILED CANCELLED
shown history >history.txt
stop_live plugin
say "The manager has ended; the database has all jobs."
shown history --db day.db >database.txt
diff <(sed 1d history.txt) <(sed 1d database.txt) || fail "the database differs"
say "live-day: 12 jobs, and each ended as expected"
