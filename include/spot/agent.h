/*
 * The protocol between spot-agent and the daemon: JSON over HTTP(S), the agent always dials out. It
 * is level-triggered: a poll tells what the agent has, the answer tells what the node should be
 * doing. There is no command queue to lose or to deliver twice. Every report carries job and epoch;
 * a report of an old epoch is answered 409 "stale_epoch" and the agent then kills what it runs.
 *
 * All requests: Content-Type application/json; Authorization: Bearer <session> except enrol.
 * Times are microseconds (integers). Unknown members are ignored by both sides.
 *
 * POST /v1/agent/enrol   {"token": one-time, "version", "boot_id", "instance_ref", "proof": {...},
 *                         "hw": {"gpus":[{"uuid","name","mem_mib","driver"}], "gpu_error": "no
 *                         GPU",
 *                                "gpu_fault"?: "words", "vcpus","mem_mib","kernel","ip"}}
 *     200 {"node": "n7", "session": "...", "poll_hold_ms": 25000, "sample_s": 15}
 *     proof tells who vouches for the node ("kind"; absent or {} where the cloud has nothing):
 *       {"kind": "aws", "document", "signature"?, "rsa2048"?, "pkcs7"?}   IMDSv2
 *                                                                         dynamic/instance-identity
 *       {"kind": "gcp", "jwt"}         identity?audience=AUDIENCE&format=full
 *       {"kind": "azure", "pkcs7"}     attested/document?nonce=NONCE ("signature" of its reply)
 *       {"kind": "kubernetes", "token"} the projected service-account token (audience AUDIENCE)
 *     AUDIENCE is boot.json's url as it stands. NONCE is the first four bytes of SHA-256 of the
 *     one-time token as a big-endian number, printed with ten digits. Where the provider can verify
 *     proofs, an enrolment without a good one is refused with 403 (the daemon may hold the request
 *     up to 20 s, then 503: repeat). hw.gpu_fault says that the driver knows GPUs that programs
 *     cannot use (a lost one; an NVLink fabric or CUDA that did not become ready within five
 *     minutes): the node is ended as broken and replaced, and its pool rests. hw.ip is how other
 *     machines of its network reach it. Machines of one gang launch share their one-time token:
 *     which of them it is says instance_ref, and 503 that the launch's reply is still out. boot_id
 *     says which machine since when: the kernel's id of this boot, and an id that the agent drew
 *     for its directory ("kernel.home"), since Pods of one host share the kernel's and two machines
 *     that one launch made (a vendor without launch tokens) share everything else. Where the cloud
 *     vouches for nothing, the daemon waits for a list of the account that shows the machine, and,
 *     while that shows another of the same launch, for that one's end. 429: no row ever knew the
 *     machine (the database is a restored backup that is older). What runs goes on, the agent asks
 *     again. A second use from the same boot_id+instance_ref (agent restart before it stored the
 *     session, lost reply) gives a new session and ends the old; from another: 409 conflict and an
 *     alarm event.
 * POST /v1/agent/poll    {"have": {"job": "j1"|null, "epoch": 2, "phase": "RUNNING", "version": 3},
 *                         "steps_done": n, "hold_ms": 25000}
 *     200 {"desired": "idle"|"run"|"drain"|"kill"|"shutdown", "job", "epoch", "version",
 *          "deadline_us" (drain: when the node goes; 0 = no hurry), "left_us"? (beside a deadline:
 *          how long from this answer on, since the two clocks may differ), "why",
 *          "run": {...}}     "run" is present when desired is "run" and have.epoch != epoch
 *          "orphan_timeout_s"? (of [api] orphan_timeout; without an answer of the daemon for so
 *          long the job saves and stops within its budget_s, its kill_after_s and a minute, then
 *          the machine is shut down; 0: never; kept over a restart; else of boot.json)
 *     Held up to hold_ms until (job, epoch, version, desired) differ from what the agent has.
 *   run: {"name", "workdir": relative, "setup", "run", "envs": {..}, "secrets": {..},
 *         "num_gpus", "max_duration_s",
 *         "files": [{"root": "checkpoint"|"mount", "path", "mode", "bytes", "sha256"?,
 *                    "chunks": [{"url", "bytes", "sha256", "headers"?: {..}}]}],   (headers go with
 *                                                                                  the GET; a mount
 *                                                                                  is one chunk;
 *                                                                                  its bytes and
 *                                                                                  sha256 are not
 *                    known: 0 and "")
 *         "checkpoint": {"path": "ckpt", "signal": "USR1", "command": ""|text, "interval_s": 0 =
 *         only
 *                        on demand, "budget_s": seconds the save may take, "then": "TERM",
 *                        "kill_after_s": 10, "dir"?}, "steps_start": n, "restored_from":
 *                        "c12"|null,
 *         "log_offset": n,                   (path "": the job saves nothing, or there is no store:
 *                                            then dir is its directory all the same)
 *         "nodes"?: {"count", "rank": from 0, "ips": [of all, by rank]}}   (a job of several nodes;
 *                                                                          each reports, saves and
 *                                                                          logs for
 *                    itself under the same job and epoch)
 * POST /v1/agent/notice {"kind": "interruption"|"rebalance"|"maintenance", "deadline_us",
 * "left_us"?, "source",
 *                         "raw"}                                      200 {}
 *     left_us: the source said how long and not until when; it counts from the arrival, and the
 *     machine's clock (deadline_us) does not.
 * POST /v1/agent/report {"job", "epoch", "phase": "SETUP"|"RUNNING"|"SAVING"|"EXITED",
 * "steps_done",
 *                         "steps_total", "exit_code"?, "exit_signal"?, "reason"? ("ok" "error"
 *                         "setup_failed" "drained" "killed"), "why", "signalled_us"?}
 *     200 {} | 409 stale_epoch. EXITED with "drained" follows the commit of its last checkpoint.
 * POST /v1/agent/checkpoint {"job", "epoch", "reason": "periodic"|"notice"|"drain"|"final",
 * "steps",
 *                         "chunks": [{"path", "seq", "bytes", "mode", "sha256"}]}
 *     200 {"checkpoint": "c12", "uploads": [{"path", "seq", "url", "how"?, "headers"?: {..}}]} only
 *     the chunks not yet stored. "how" is "put" when absent: PUT the bytes to url, with headers if
 *     there are any and no others. "resumable" (GCS): POST url with headers and no body, the
 *     reply's Location is the session; PUT pieces there with Content-Range, 308 and its Range tell
 *     how far it got. "blocks" (Azure): PUT url&comp=block&blockid=ID for pieces, then PUT
 *     url&comp=blocklist. Both go on where they were after a fault. Held until the engine has
 *     minted the URLs (<= 20 s, then 503: repeat).
 * POST /v1/agent/commit  {"job", "epoch", "checkpoint": "c12"}       200 {} (idempotent) | 409
 * POST /v1/agent/log?job=j1&epoch=2&offset=N   raw bytes (<= 256 KiB)
 *     200 {"next_offset": M}   M > N+len or < N tell where to go on; nothing is stored twice
 * POST /v1/agent/sample  {"at_us", "gpus", "gpu_util", "gpu_mem_used_mib", "gpu_mem_total_mib",
 *                         "gpu_power_mw", "cpu_util", "mem_used_mib"}   200 {}
 *
 * What a job sees (also the SKYPILOT_* names beside, see docs of the job file):
 *   SPOT_JOB_ID SPOT_JOB_NAME SPOT_EPOCH SPOT_NODE_ID SPOT_NUM_GPUS SPOT_CHECKPOINT_DIR (absolute)
 *   SPOT_NUM_NODES SPOT_NODE_RANK SPOT_NODE_IPS (one per line) SPOT_HEAD_IP SPOT_RESTORED (1 if the
 *   directory was filled from a checkpoint) SPOT_STEPS_START SPOT_PROGRESS_FILE: the job writes
 *   "done total\n" there (atomically by rename or one short write) SPOT_SAVED_FILE: after the
 *   signal, the job creates this file ("steps\n"; without a number it is of the step at which it
 *   was asked for) when its save is complete; the agent also accepts the job's exit with 0 as
 *   "saved" (at the step of the last save that it confirmed where no file is younger than that,
 *   unless it has finished). On the signal the job saves and keeps running or exits. What a job of
 *   several nodes saves by itself, without this file, is not stored once its saves have steps: all
 *   ranks are restored at one. SPOT_NOTICE_FILE: exists once a notice came: {"kind","deadline_us"}
 */
#ifndef SPOT_AGENT_H
#define SPOT_AGENT_H

#define SPOT_AGENT_PROTOCOL 1
#define SPOT_AGENT_CHUNK_BYTES (64ll << 20) /* chunk size of checkpoint files */
#define SPOT_AGENT_LOG_BYTES (256 << 10)
#define SPOT_AGENT_FILES_MAX 20000

/* The agent's configuration file, written by the node's user data: $SPOT_AGENT_DIR/boot.json
 * (0600), default directory /var/lib/spot-agent: {"url": "https://...", "ca_pem": "..."|null,
 * "token": one-time, "provider": "aws", "install": "..", "node": "n7"}. Vendors' variables for
 * metadata endpoints are honoured (AWS_EC2_METADATA_SERVICE_ENDPOINT, GCE_METADATA_HOST,
 * GCE_METADATA_IP, AZURE_POD_IDENTITY_AUTHORITY_HOST). In a Pod SPOT_TERMINATION_GRACE_S is its
 * grace period and SPOT_IDENTITY_TOKEN_FILE the projected token. User data fetches GET
 * /v1/agent/download/{spot-agent,spot-nvml}, on arm64 {spot-agent,spot-nvml}-aarch64; X-Sha256 says
 * which one. */

#endif
