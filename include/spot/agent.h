/*
 * The protocol between spot-agent and the daemon: JSON over HTTP(S). The agent always dials out.
 *
 * The protocol is level-triggered. A poll reports what the agent has; the answer is what the node
 * should be doing. There is no command queue, so nothing is lost or delivered twice. Every report
 * carries job and epoch. The daemon answers a report of an old epoch with 409 "stale_epoch", and
 * the agent then kills what it runs.
 *
 * All requests: Content-Type application/json; Authorization: Bearer <session>, except enrol.
 * Times are microseconds (integers). Both sides ignore unknown members. "x"? is optional.
 *
 * POST /v1/agent/enrol
 *
 *   - request: {"token": one-time, "version", "boot_id", "instance_ref", "proof": {..}, "hw": {..}}
 *   - hw: {"gpus": [{"uuid", "name", "mem_mib", "driver"}], "gpu_error": "no GPU",
 *     "gpu_fault"?: "words", "vcpus", "mem_mib", "kernel", "ip"}
 *   - 200: {"node": "n7", "session": "...", "poll_hold_ms": 25000, "sample_s": 15}
 *
 *   The cloud's proof of the node's identity is one of these. It is absent or {} if the cloud has
 *   none.
 *
 *   - {"kind": "aws", "document", "signature"?, "rsa2048"?, "pkcs7"?}, from IMDSv2
 *     dynamic/instance-identity
 *   - {"kind": "gcp", "jwt"}, from identity?audience=AUDIENCE&format=full
 *   - {"kind": "azure", "pkcs7"}, the "signature" of attested/document?nonce=NONCE
 *   - {"kind": "kubernetes", "token"}, the projected service-account token (audience AUDIENCE)
 *
 *   AUDIENCE is the url of boot.json, unchanged. NONCE is the first four bytes of SHA-256 of the
 *   one-time token as a big-endian number, printed with ten digits.
 *
 *   If the provider can verify proofs, the daemon refuses an enrolment without a good one with 403.
 *   It may hold the request up to 20 s, then answers 503: repeat. If the cloud has no proofs, the
 *   daemon waits for a list of the account that shows the machine. While that list shows another
 *   machine of the same launch, it waits for the end of that one.
 *
 *   With hw.gpu_fault the driver knows GPUs that programs cannot use. Either one is lost, or the
 *   NVLink fabric or CUDA was not ready within five minutes. The engine then replaces the node, and
 *   its pool cools down. The address for other machines of the network is hw.ip.
 *
 *   Machines of one gang launch share their one-time token, and instance_ref tells them apart. The
 *   daemon answers 503 until it has the reply of the launch.
 *
 *   The boot_id identifies a machine since its boot: "kernel.home", the kernel's boot id and a
 *   random id of the agent's directory. Pods of one host share the kernel's id, and two machines of
 *   one launch may share everything else.
 *
 *   The agent may enrol again with the same boot_id and instance_ref, after a restart or a lost
 *   reply. It gets a new session, which ends the old one. Another machine gets 409 conflict, and
 *   the daemon records an alarm event. 429: no row ever knew the machine, because the database is
 *   an older backup. The job goes on, and the agent retries.
 *
 * POST /v1/agent/poll
 *
 *   - request: {"have": {"job": "j1"|null, "epoch": 2, "phase": "RUNNING", "version": 3},
 *     "steps_done": n, "hold_ms": 25000}
 *   - 200: {"desired": "idle"|"run"|"drain"|"kill"|"shutdown", "job", "epoch", "version",
 *     "deadline_us", "left_us"?, "why", "run": {..}, "save"?, "orphan_timeout_s"?}
 *
 *   The daemon holds it up to hold_ms until (job, epoch, version, desired) differ from "have". The
 *   members of the answer:
 *
 *   - deadline_us: with drain, the time when the node goes; 0 = no hurry
 *   - left_us: the same as a duration from this answer, since the two clocks may differ
 *   - save: a number; one that the agent has not seen in this epoch asks the job to save and go
 *     on. Sent for two minutes
 *   - run: present if desired is "run" and have.epoch is another epoch
 *   - orphan_timeout_s: silence of the daemon after which the job saves and stops, within its
 *     budget_s, its kill_after_s and a minute. Then the machine shuts down. 0 = never. The value is
 *     [api] orphan_timeout, until the first answer that of boot.json; a restart keeps it
 *
 *   The members of run:
 *
 *   - "name", "workdir": relative, "setup", "run", "envs": {..}, "secrets": {..}, "num_gpus"
 *   - "max_duration_s", "steps_start": n, "restored_from": "c12"|null, "log_offset": n
 *   - "files": [{"root": "checkpoint"|"mount", "path", "mode", "bytes", "sha256"?, "chunks":
 *     [{"url", "bytes", "sha256", "headers"?: {..}}]}]
 *   - "checkpoint": {"path": "ckpt", "signal": "USR1", "command": ""|text, "interval_s",
 *     "budget_s", "then": "TERM", "kill_after_s": 10, "dir"?}
 *   - "nodes"?: {"count", "rank": from 0, "ips": [of all, by rank]}
 *
 *   The GET of a chunk carries its headers. A mount is one chunk with unknown bytes (0) and sha256
 *   (""). With interval_s 0 the job saves only on demand. A save may take budget_s seconds. With
 *   path "" the job saves nothing, or there is no store; dir is its directory nevertheless. With
 *   nodes the job has several nodes. Each reports, saves and logs for itself under the same job and
 *   epoch.
 *
 * POST /v1/agent/notice
 *
 *   - request: {"kind": "interruption"|"rebalance"|"maintenance", "deadline_us", "left_us"?,
 *     "source", "raw", "heard_ago_us"?}
 *   - 200: {}
 *
 *   With left_us the source gave a duration. It counts from the arrival, not by the machine's
 *   clock. The agent heard the notice heard_ago_us before this request.
 *
 * POST /v1/agent/report
 *
 *   - request: {"job", "epoch", "phase": "SETUP"|"RUNNING"|"SAVING"|"EXITED", "steps_done",
 *     "steps_total", "exit_code"?, "exit_signal"?, "reason"?, "why", "signalled_us"?,
 *     "left_signal_ago_us"?, "left_saved_ago_us"?, "first_step_ago_us"?}
 *   - 200: {}
 *   - 409: stale_epoch
 *
 *   The last three are durations up to this report, since the two clocks may differ. The first
 *   counts from the agent's request to the job to save and leave. The second counts from the job's
 *   confirmation of that save, the third from its first progress beyond steps_start. The daemon
 *   measures recoveries by them.
 *
 *   The reason is "ok", "error", "setup_failed", "drained" or "killed". EXITED with "drained"
 *   follows the commit of the last checkpoint.
 *
 * POST /v1/agent/checkpoint
 *
 *   - request: {"job", "epoch", "reason": "periodic"|"notice"|"burst"|"drain"|"final", "steps",
 *     "chunks": [{"path", "seq", "bytes", "mode", "sha256"}]}
 *   - 200: {"checkpoint": "c12", "uploads": [{"path", "seq", "url", "how"?, "headers"?: {..}}]}
 *
 *   The uploads are the chunks that are not yet stored. The daemon holds the request up to 20 s
 *   until the engine has presigned the URLs, then answers 503: repeat. The values of how:
 *
 *   - "put" (default): PUT the bytes to url, with these headers and no others
 *   - "resumable" (GCS): POST url with headers and no body; Location is the session. PUT pieces
 *     there with Content-Range; 308 and its Range give the bytes received
 *   - "blocks" (Azure): PUT url&comp=block&blockid=ID for pieces, then PUT url&comp=blocklist
 *
 *   The last two resume after a fault.
 *
 * POST /v1/agent/commit
 *
 *   - request: {"job", "epoch", "checkpoint": "c12"}
 *   - 200: {}; idempotent
 *   - 409: stale_epoch
 *
 * POST /v1/agent/log?job=j1&epoch=2&offset=N
 *
 *   - request: raw bytes, at most 256 KiB
 *   - 200: {"next_offset": M}
 *
 *   With M > N + len or M < N go on at M. The daemon stores nothing twice.
 *
 * POST /v1/agent/sample
 *
 *   - request: {"at_us", "gpus", "gpu_util", "gpu_mem_used_mib", "gpu_mem_total_mib",
 *     "gpu_power_mw", "cpu_util", "mem_used_mib"}
 *   - 200: {}
 *
 * The environment of a job (SKYPILOT_* names too, see the manual of the job file):
 *
 * - SPOT_JOB_ID SPOT_JOB_NAME SPOT_EPOCH SPOT_NODE_ID SPOT_NUM_GPUS SPOT_STEPS_START
 * - SPOT_CHECKPOINT_DIR: an absolute path
 * - SPOT_NUM_NODES SPOT_NODE_RANK SPOT_HEAD_IP SPOT_NODE_IPS (one per line)
 * - with several nodes, what NCCL must know of the cloud's network (src/agent/proc/nccl.c), unless
 *   the job sets it
 * - SPOT_RESTORED: 1 if the directory was filled from a checkpoint
 * - SPOT_PROGRESS_FILE: the job writes "done total\n" there, by rename or one short write
 * - SPOT_SAVED_FILE: after the signal, the job creates it with "steps\n" when its save is complete.
 *   Without a number it counts for the step at the signal
 * - SPOT_NOTICE_FILE: exists once a notice came: {"kind", "deadline_us"}
 *
 * On the signal a job saves, and then keeps running or exits. An exit with 0 counts as saved, too.
 * Its step is that of the last confirmed save if no file is newer, unless the job has finished.
 *
 * The engine restores all ranks of a job at one step. So once the saves of a job of several nodes
 * have steps, the agent does not store a save without SPOT_SAVED_FILE.
 */
#ifndef SPOT_AGENT_H
#define SPOT_AGENT_H

#define SPOT_AGENT_PROTOCOL 1
#define SPOT_AGENT_CHUNK_BYTES (64ll << 20) /* chunk size of checkpoint files */
#define SPOT_AGENT_LOG_BYTES (256 << 10)
#define SPOT_AGENT_FILES_MAX 20000

/*
 * The node's user data writes the agent's configuration: $SPOT_AGENT_DIR/boot.json (mode 0600,
 * default directory /var/lib/spot-agent): {"url": "https://...", "ca_pem": "..."|null, "token":
 * one-time, "provider": "aws", "install": "..", "node": "n7"}.
 *
 * The agent honours the vendors' variables for metadata endpoints:
 * AWS_EC2_METADATA_SERVICE_ENDPOINT, GCE_METADATA_HOST, GCE_METADATA_IP and
 * AZURE_POD_IDENTITY_AUTHORITY_HOST. In a Pod
 * SPOT_TERMINATION_GRACE_S is its grace period, and SPOT_IDENTITY_TOKEN_FILE the projected token.
 *
 * User data fetches GET /v1/agent/download/{spot-agent,spot-nvml}, on arm64
 * {spot-agent,spot-nvml}-aarch64. A request with X-Sha256 gets exactly that build.
 */

#endif
