-- job_submit.lua for `cosched-plugin slurm --mode guests --guests co:guest`: into a partition of guests only cosched brings a job.
-- Who submits there, or moves a job there, is refused; all else is left as it is.
local guests = { guest = true }
local admins = { [0] = true } -- numbers of users: root; add that of SlurmUser if cosched runs as it
local shared = "co" -- what users name instead
local shared_qos = nil -- for instance "share": jobs of this QOS that name no partition go to `shared`

local function allowed(partitions, uid)
  if admins[uid] then return slurm.SUCCESS end
  for name in string.gmatch(partitions or "", "[^,]+") do
    if guests[name] then
      slurm.log_user("partition %s is for cosched: choose %s", name, shared)
      return slurm.ESLURM_ACCESS_DENIED
    end
  end
  return slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  if shared_qos and job_desc.qos == shared_qos and job_desc.partition == nil then
    job_desc.partition = shared
  end
  return allowed(job_desc.partition, submit_uid)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return allowed(job_desc.partition, modify_uid)
end
