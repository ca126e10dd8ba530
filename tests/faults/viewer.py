"""A viewer that misbehaves. It speaks the viewer's protocol: a rank sends its hello line, the viewer answers
"resume N", and the rank sends its file from byte N on."""

import re
import select
import socket
import struct
import threading
import time


class Viewer:
    """Listens on the loopback interface. `manner` is 'good', 'deaf' (answers, then reads nothing), 'half-open' (accepts,
    never answers) or 'backlog' (never accepts). Keeps the bytes received from each rank over
    all of the rank's connections."""

    def __init__(self, manner='good', port=0):
        self.manner, self.files = manner, {}
        self.listener, self.clients, self.stopped = None, {}, False
        self.port = port
        if not port:
            with socket.socket() as probe:
                probe.bind(('127.0.0.1', 0))
                self.port = probe.getsockname()[1]
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def open(self):
        with self.lock:
            self.listener = socket.create_server(('127.0.0.1', self.port), backlog=64)
            if self.manner == 'deaf':
                self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def kill(self):
        """Closes all connections at once, as when a process is killed."""
        with self.lock:
            for client in self.clients:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                client.close()
            self.clients = {}
            if self.listener:
                self.listener.close()
            self.listener = None

    def close(self):
        self.stopped = True
        self.thread.join()
        self.kill()

    def _work(self):
        while not self.stopped:
            with self.lock:
                watched = [each for each in (self.listener, *self.clients) if each]
                if self.manner == 'backlog':
                    watched = []
                ready = select.select(watched, [], [], 0)[0] if watched else []
                for each in ready:
                    try:
                        self._serve(each)
                    except OSError:
                        self.clients.pop(each, None)
                        each.close()
            if not ready:
                time.sleep(0.003)

    def _serve(self, each):
        if each is self.listener:
            client, _ = each.accept()
            self.clients[client] = [None, b'']
            return
        state = self.clients[each]
        if state[0] is not None and self.manner == 'deaf':
            time.sleep(0.001)
            return
        received = each.recv(1 << 16)
        if not received:
            del self.clients[each]
            each.close()
            return
        if state[0] is not None:
            self.files[state[0]] += received
            return
        state[1] += received
        if b'\n' not in state[1] or self.manner == 'half-open':
            return
        state[0] = int(re.search(rb'"rank":(\d+)', state[1])[1])
        have = self.files.setdefault(state[0], b'')
        each.sendall(b'resume %d\n' % len(have))

    def drained(self, run, ranks):
        """Returns whether it has received every rank's whole file."""
        return all(self.files.get(rank) == run.rank_file(rank).read_bytes() for rank in range(ranks))
