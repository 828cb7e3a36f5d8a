"""Why a job started when it did, from a decision trace."""
