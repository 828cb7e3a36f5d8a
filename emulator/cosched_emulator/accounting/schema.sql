-- The steps that make each version of the accounts' database of the one before; never changed, only added to.
-- ---------------------------------------------------------------- version 1
-- What the manager was started with: by name.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- All that has ever gone into the manager, in order: played again, it makes the same manager.
CREATE TABLE journal (step INTEGER PRIMARY KEY, kind TEXT NOT NULL, at_us INTEGER NOT NULL, body BLOB NOT NULL);

-- One row: how many changes of the journal's last step are in the other tables; those of the steps before all are.
CREATE TABLE progress (step INTEGER NOT NULL, changes INTEGER NOT NULL);
INSERT INTO progress VALUES (0, 0);

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    user TEXT NOT NULL,                  -- who submitted it, or whom the workload names
    owner TEXT NOT NULL,                 -- who submitted it; empty: the scenario's workload
    name TEXT NOT NULL,
    array_id INTEGER,                    -- id of its array's first task
    array_index INTEGER,
    after TEXT NOT NULL,                 -- JSON: [["afterok" or "afterany", job id], ...]
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    submit_us INTEGER NOT NULL,
    start_us INTEGER,                    -- its last start
    end_us INTEGER,
    processes INTEGER NOT NULL,
    ppn_min INTEGER NOT NULL,
    ppn_max INTEGER NOT NULL,
    threads_per_process INTEGER NOT NULL,
    memory_mb INTEGER NOT NULL,          -- per process
    exclusive INTEGER NOT NULL,
    estimate_us INTEGER NOT NULL,        -- as submitted
    limit_us INTEGER,                    -- as submitted
    demand TEXT,                         -- JSON: what the user said, MB/s per process: [memory bandwidth, network, disk]
    usage TEXT,                          -- JSON: what the user said: [class, cpu, network, disk, memory], in millionths
    self_slowdown TEXT,                  -- JSON: what the user said: [node, core], in millionths
    run_us INTEGER NOT NULL,             -- truth: run time alone
    true_demand TEXT,                    -- truth, as above
    true_usage TEXT,
    true_self_slowdown TEXT,
    source_id INTEGER NOT NULL,
    starts INTEGER NOT NULL DEFAULT 0,
    requeues INTEGER NOT NULL DEFAULT 0,
    preemptions INTEGER NOT NULL DEFAULT 0,
    nodes INTEGER,                       -- of its last stay
    work_us INTEGER,                     -- done since its last start; this and the following: once it has ended
    expected_us INTEGER,                 -- estimate and limit of its last start, as last revised
    granted_us INTEGER,
    suspended_us INTEGER,                -- time since its last start without progress
    job TEXT NOT NULL,                   -- JSON: the whole job, to build it again
    entered_step INTEGER NOT NULL,
    finished_step INTEGER                -- where the columns from work_us on were written
);
CREATE INDEX jobs_by_end ON jobs (end_us, id);
CREATE INDEX jobs_by_user ON jobs (user, end_us, id);
CREATE INDEX jobs_by_array ON jobs (array_id, array_index) WHERE array_id IS NOT NULL;

-- Every stay of a job on nodes that is over: one row for each run of neighbouring nodes that it used alike.
CREATE TABLE allocations (
    job_id INTEGER NOT NULL,
    stay INTEGER NOT NULL,               -- from 0
    run INTEGER NOT NULL,                -- from 0
    start_us INTEGER NOT NULL,
    end_us INTEGER NOT NULL,
    resumed INTEGER NOT NULL,            -- 1: it came back from disk, 0: it started
    first_node INTEGER NOT NULL,
    node_count INTEGER NOT NULL,
    thread_mask TEXT NOT NULL,           -- hexadecimal: threads on each of these nodes
    processes_per_node INTEGER NOT NULL,
    PRIMARY KEY (job_id, stay, run)
) WITHOUT ROWID;
CREATE INDEX allocations_by_time ON allocations (end_us, start_us);

-- Every time that a job was suspended to disk.
CREATE TABLE preemptions (
    job_id INTEGER NOT NULL,
    preemption INTEGER NOT NULL,         -- from 0
    start_us INTEGER NOT NULL,
    end_us INTEGER,                      -- NULL: it never left
    PRIMARY KEY (job_id, preemption)
) WITHOUT ROWID;

-- Every change of the state of a job or a node.
CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    step INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    what TEXT NOT NULL,                  -- job or node
    id INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL
);
CREATE INDEX changes_by_object ON changes (what, id, number);

CREATE TABLE faults (
    number INTEGER PRIMARY KEY,
    step INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX faults_by_step ON faults (step);

-- For people: times in seconds.
CREATE VIEW job_times AS
SELECT id, user, name, array_id, array_index, state, reason, processes, nodes, starts, requeues, preemptions,
       submit_us / 1e6 AS submit_s, start_us / 1e6 AS start_s, end_us / 1e6 AS end_s,
       (start_us - submit_us) / 1e6 AS wait_s, (end_us - start_us) / 1e6 AS wall_s, work_us / 1e6 AS work_s,
       run_us / 1e6 AS run_s, estimate_us / 1e6 AS estimate_s, limit_us / 1e6 AS limit_s
FROM jobs;
CREATE VIEW stays AS
SELECT job_id, stay, min(start_us) / 1e6 AS start_s, min(end_us) / 1e6 AS end_s, sum(node_count) AS nodes,
       sum(node_count * processes_per_node) AS process_places, max(resumed) AS resumed
FROM allocations GROUP BY job_id, stay;
CREATE VIEW change_times AS
SELECT number, at_us / 1e6 AS at_s, what, id, state, reason FROM changes;
CREATE VIEW node_states AS
SELECT id AS node, state, at_us / 1e6 AS since_s, reason
FROM changes WHERE number IN (SELECT max(number) FROM changes WHERE what = 'node' GROUP BY id);
CREATE VIEW fault_times AS
SELECT number, at_us / 1e6 AS at_s, kind, detail FROM faults;

-- ---------------------------------------------------------------- version 2
ALTER TABLE jobs ADD COLUMN cpu_us INTEGER;         -- CPU time of a process since its last start; NULL: jobs do not share time
ALTER TABLE jobs ADD COLUMN dispatched_us INTEGER;  -- time since its last start for which it could run

-- Every quantum that is over, where jobs take turns.
CREATE TABLE quanta (
    id INTEGER PRIMARY KEY,              -- in order of time
    number INTEGER NOT NULL,             -- one in which all jobs ended is cut short, and the next one has its number again
    start_us INTEGER NOT NULL,
    end_us INTEGER NOT NULL,
    turn INTEGER NOT NULL,               -- first slot of its turn
    jobs INTEGER NOT NULL,               -- running jobs at its begin
    nodes INTEGER NOT NULL,              -- with a job that could run
    paired_nodes INTEGER NOT NULL,       -- with more than one
    parts TEXT NOT NULL                  -- JSON: [job id, slot, role, paired, could run us, CPU us, share ppm or null] of each job
);

-- ---------------------------------------------------------------- version 3
-- As submitted: no job of another slot runs on its nodes in the same quantum.
ALTER TABLE jobs ADD COLUMN unpaired INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET unpaired = coalesce(json_extract(job, '$.spec.unpaired'), 0);
ALTER TABLE jobs ADD COLUMN slot INTEGER;  -- in which it was last; NULL: jobs do not share time, or it has not ended

-- ---------------------------------------------------------------- version 4
ALTER TABLE jobs ADD COLUMN energy_j REAL;  -- joules of all its stays; NULL: no watts of nodes are known, or it has not ended

-- ---------------------------------------------------------------- version 5
ALTER TABLE journal ADD COLUMN link BLOB NOT NULL DEFAULT x'';  -- digest of the step and of the link before it
UPDATE journal SET link = next_link(step, kind, at_us, body);

-- ---------------------------------------------------------------- version 6
-- No table is other than before. The journal may begin anew after a `base` (meta), which older programs do not know.
