/* Prints every final that cosyd publishes: topic and JSON, one a line.
 *
 *   cc -o subscribe subscribe.c -lzmq
 *   ./subscribe ipc:///run/cosyd/events.sock
 */
#include <stdio.h>
#include <zmq.h>

enum { TOPIC_BYTES = 256, DATA_BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    static char topic[TOPIC_BYTES], data[DATA_BYTES];
    const char *address = argc > 1 ? argv[1] : "ipc:///run/cosyd/events.sock";
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_SUB);

    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "asr.final", 9);
    if (zmq_connect(socket, address) != 0) {
        fprintf(stderr, "%s: %s\n", address, zmq_strerror(zmq_errno()));
        return 1;
    }
    for (;;) { /* a message has two frames; zmq_recv gives the true size, also of what it cut off */
        int topic_size = zmq_recv(socket, topic, sizeof topic, 0);
        int data_size = zmq_recv(socket, data, sizeof data, 0);
        if (topic_size < 0 || data_size < 0)
            break;
        if (topic_size > TOPIC_BYTES || data_size > DATA_BYTES)
            continue;
        printf("%.*s %.*s\n", topic_size, topic, data_size, data);
        fflush(stdout);
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    return 0;
}
