#!/bin/bash
# A TaskProlog for Slurm's nodes with several hardware threads a core: the tasks of a host run on the first thread of each of their
# cores, those of a guest on the second one. Without it, task/affinity binds both jobs of a pair to the first (seen with 24.11, 26.05).
#
#   slurm.conf: TaskPlugin=task/affinity TaskProlog=/etc/slurm/cosched-seats.sh
#
# Slurm has one job of each partition on a core (OverSubscribe=FORCE:1). So the partition says which thread is whose, on every node, also
# after one of the two has ended and another one has come: nothing is asked of slurmctld, and nothing is remembered.
# Set here which partitions are meant, as in `cosched-plugin slurm --guests co:guest`; several are separated by blanks.
hosts="co" guests="guest"
tasks_per_core="" # of a job that does not say it: 1 where SelectTypeParameters has CR_ONE_TASK_PER_CORE
cpus=/sys/devices/system/cpu # of this node

case " $guests " in *" $SLURM_JOB_PARTITION "*) seat=1 ;; *) seat=0 ;; esac
case " $hosts $guests " in *" $SLURM_JOB_PARTITION "*) ;; *) exit 0 ;; esac

# numbers LIST: 0-2,5 as 0 1 2 5
numbers() {
    local part
    for part in ${1//,/ }; do seq "${part%-*}" "${part#*-}"; done
}

mask=$(taskset -cp "$SLURM_TASK_PID") || exit 0
seats="" threads=()
for cpu in $(numbers "${mask##*: }"); do
    mapfile -t threads < <(numbers "$(<"$cpus/cpu$cpu/topology/thread_siblings_list")")
    seats+=,${threads[seat]-}
done
((${#threads[@]} > 1)) || exit 0
# A job whose tasks use all threads of their cores is nobody's host, and keeps these.
tasks_per_core=${SLURM_NTASKS_PER_CORE-$tasks_per_core}
if ((!seat)) && [[ ${SLURM_THREADS_PER_CORE-} != 1 && ${SLURM_HINT-} != nomultithread && $tasks_per_core != 1 ]]; then
    ((${SLURM_CPUS_PER_TASK:-1} % ${#threads[@]} == 0)) || exit 0
fi
taskset -cp "${seats#,}" "$SLURM_TASK_PID" >/dev/null # standard output would be read as commands
exit 0
