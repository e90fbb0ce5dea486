"""Uploads in pieces: faults in the middle, and how much is sent twice."""
import hashlib
import os
import threading

import clouds
from case import AgentCase

MIB = 1 << 20
PIECE = 8 * MIB


class StoreCase(AgentCase):
    how = ""

    def setUp(self):
        super().setUp()
        self.store = clouds.Store(self.daemon, self.how)
        self.addCleanup(self.store.close)
        self.daemon.set(upload_of=self.store.upload)

    def end_with(self, size, setup=""):
        """A job that leaves a file of that size; returns its bytes as the store has them."""
        self.agent.start()
        self.job(f"{setup}head -c {size} /dev/urandom >ckpt/big")
        self.assertEqual(self.exited(timeout=60)["reason"], "ok")
        (c,) = [c for c in self.daemon.checkpoints.values() if c["committed"]]
        data = b"".join(self.daemon.objects[x["sha256"]] for x in c["chunks"])
        self.assertEqual(len(data), size)
        self.assertNotIn("secret", self.agent.consoles())
        return c

    def flipped(self, kind):
        """A byte changes on its way once; returns whether the object is whole."""
        self.store.plan(kind, "flip", after=1)
        c = self.end_with(20 * MIB)
        self.assertEqual(self.store.flips, 1)
        return all(hashlib.sha256(self.daemon.objects[x["sha256"]]).hexdigest() == x["sha256"] for x in c["chunks"])

    def change_under_it(self):
        """The file is another one of the same length once its list was sent; then nothing more is changed."""
        path = os.path.join(self.agent.job_dir("j1", 1), "work", "ckpt", "big")
        count = []

        def change():
            count.append(1)
            if len(count) == 1:
                with open(path, "r+b") as f:
                    f.seek(9 * MIB)
                    f.write(b"other bytes")
        self.daemon.set(on_checkpoint=change)
        return count


class Resumable(StoreCase):
    how = "resumable"

    def test_without_faults_every_byte_is_sent_once(self):
        self.end_with(20 * MIB + 7)
        self.assertEqual((self.store.sent, self.store.created), (20 * MIB + 7, 1))

    def test_a_file_smaller_than_a_piece_is_one_piece(self):
        self.end_with(1000)
        self.assertEqual((self.store.sent, self.store.created), (1000, 1))

    def test_a_cut_connection_costs_what_was_under_way(self):
        self.store.plan("piece", "drop", after=1, keep=5 * MIB + 100000)
        self.end_with(20 * MIB)
        self.assertEqual(self.store.created, 1)
        # 100000 bytes of the cut piece were below the store's granularity of 256 KiB and came again.
        self.assertEqual(self.store.sent, 20 * MIB + 100000)

    def test_a_server_error_after_which_less_is_stored_than_was_sent(self):
        self.store.plan("piece", 503, after=0, keep=3 * MIB)
        self.store.plan("piece", 500, after=2, keep=0)
        self.end_with(20 * MIB)
        self.assertEqual((self.store.sent, self.store.created), (20 * MIB, 1))

    def test_a_lost_reply_to_the_last_piece_causes_no_second_upload(self):
        self.store.plan("piece", "drop", after=2)
        self.end_with(20 * MIB)
        self.assertEqual((self.store.sent, self.store.created), (20 * MIB, 1))

    def test_a_session_that_is_gone_is_begun_anew(self):
        self.store.plan("piece", 410, after=1)
        self.end_with(20 * MIB)
        self.assertEqual((self.store.sent, self.store.created), (16 * MIB + 20 * MIB, 2))

    def test_a_question_that_fails_is_repeated(self):
        self.store.plan("piece", 503, after=1, keep=0)
        self.store.plan("ask", 503)
        self.store.plan("ask", "drop")
        self.end_with(20 * MIB)
        self.assertEqual((self.store.sent, self.store.created), (20 * MIB, 1))

    def test_chunks_go_in_parallel(self):
        self.end_with(130 * MIB)
        self.assertEqual((self.store.sent, self.store.created), (130 * MIB, 3))

    def test_a_file_that_changes_never_becomes_an_object_of_the_wrong_hash(self):
        count = self.change_under_it()
        self.end_with(20 * MIB)
        self.assertEqual(len(count), 2)

    def test_a_byte_that_changed_on_its_way_is_not_what_counts(self):
        self.assertTrue(self.flipped("piece"))
        self.assertEqual((self.store.sent, self.store.created), (40 * MIB, 2))

    def test_a_session_that_nobody_goes_on_with_is_cancelled(self):
        self.change_under_it()
        self.end_with(20 * MIB)
        self.assertEqual(self.store.created, 2)
        self.until(lambda: not self.store.open_sessions(), "no session is left at the store")

    def test_a_session_whose_address_comes_when_its_upload_was_given_up_is_cancelled(self):
        self.store.hold = threading.Event()
        self.agent.start()
        self.job("head -c 1000 /dev/urandom >ckpt/big")
        self.until(lambda: self.store.created, "a session is made")
        self.daemon.want("kill", "j1", 1, why="cancelled")
        self.assertEqual(self.exited()["reason"], "killed")
        self.assertEqual(len(self.store.open_sessions()), 1)
        self.store.hold.set()
        self.until(lambda: not self.store.open_sessions(), "no session is left at the store")
        self.daemon.want("idle")


class Blocks(StoreCase):
    how = "blocks"

    def test_without_faults_every_byte_is_sent_once(self):
        self.end_with(20 * MIB + 7)
        self.assertEqual(self.store.sent, 20 * MIB + 7)

    def test_a_small_file_is_one_block_and_no_list_is_read(self):
        self.end_with(1000)
        self.assertEqual((self.store.sent, self.store.lists), (1000, 0))

    def test_a_lost_reply_to_a_block_is_found_in_the_list(self):
        self.store.plan("block", "lost", after=1)
        self.end_with(20 * MIB)
        self.assertEqual(self.store.sent, 20 * MIB)

    def test_a_refused_block_is_sent_again_and_no_other(self):
        self.store.plan("block", 503, after=1)
        self.store.plan("block", "drop", after=2, keep=MIB)
        self.end_with(20 * MIB)
        self.assertEqual(self.store.sent, 20 * MIB + PIECE + MIB)

    def test_a_url_for_writing_only_goes_by_what_was_acknowledged(self):
        self.store.list_status = 403
        self.store.plan("block", 500, after=2, keep=0)
        self.end_with(20 * MIB)
        self.assertEqual(self.store.sent, 20 * MIB)

    def test_a_lost_reply_to_the_list_of_blocks_is_repeated(self):
        self.store.plan("blocklist", 500)
        self.store.plan("blocklist", "drop")
        self.end_with(20 * MIB)
        self.assertEqual(self.store.sent, 20 * MIB)

    def test_blocks_that_another_commit_dropped_are_sent_again(self):
        self.store.plan("blocklist", 400)
        self.end_with(20 * MIB)
        self.assertEqual(self.store.sent, 20 * MIB)     # they were there after all

    def test_an_agent_after_us_goes_on_with_our_blocks(self):
        self.store.plan("block", 503, after=2, keep=0)
        self.store.plan("block", 503, after=2, keep=0)
        self.agent.start()
        self.job(f"head -c {20 * MIB} /dev/urandom >ckpt/big")
        self.until(lambda: self.store.sent >= 2 * PIECE, "two blocks")
        self.agent.crash()
        self.agent.start()
        self.assertEqual(self.exited(timeout=60)["reason"], "ok")
        self.assertEqual(self.store.sent, 20 * MIB)

    def test_a_file_that_changes_never_becomes_an_object_of_the_wrong_hash(self):
        count = self.change_under_it()
        self.end_with(20 * MIB)
        self.assertEqual(len(count), 2)

    def test_a_byte_that_changed_on_its_way_is_not_what_counts(self):
        self.assertTrue(self.flipped("block"))
        self.assertEqual(self.store.sent, 20 * MIB + PIECE)


class Headers(AgentCase):
    def test_a_signed_url_gets_the_headers_that_were_signed_with_it(self):
        self.daemon.set(upload_of=lambda c: dict(self.daemon.upload(c), how="put", headers={"X-Extra": "of the upload"}))
        given = self.daemon.file("checkpoint", "given", b"given")
        given["chunks"][0]["headers"] = {"X-Extra": "of the download"}
        self.agent.start()
        self.job("cat ckpt/given; echo more >ckpt/result", files=[given])
        self.assertEqual(self.exited()["reason"], "ok")
        self.assertEqual(self.daemon.extra, [("GET", "of the download"), ("PUT", "of the upload"),
                                             ("PUT", "of the upload")][:len(self.daemon.extra)])
        self.assertIn(("PUT", "of the upload"), self.daemon.extra)

    def test_an_unknown_way_to_upload_fails_the_checkpoint_not_the_agent(self):
        self.daemon.set(upload_of=lambda c: dict(self.daemon.upload(c), how="by pigeon"))
        self.agent.start()
        self.job("echo s >ckpt/state; echo up; exec sleep 600", checkpoint={"interval_s": 1})
        self.until(lambda: len(self.daemon.checkpoints) >= 2, "checkpoints that are tried again")
        self.assertIn("not understood", self.agent.consoles())
        self.assertIsNone(self.agent.process.poll())
