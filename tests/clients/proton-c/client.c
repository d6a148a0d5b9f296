/* Scenarios with Proton C's proactor, which here speaks AMQP with no SASL layer; see ../README.md. */

#include <proton/condition.h>
#include <proton/connection.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/proactor.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_BYTES_MAX = 65536, MESSAGE_BYTES_MAX = BODY_BYTES_MAX + 1024, LIMIT_MILLISECONDS = 60000 };

typedef struct {
    const char *scenario, *address;
    pn_proactor_t *proactor;
    pn_connection_t *connection;
    pn_link_t *receiver, *sender;
    /* transfer, presettled, outcomes */
    unsigned count, sent, received, accepted, settled;
    bool is_settled, is_outcomes;
    /* request */
    bool is_request;
    pn_link_t *inbox, *answers;
    char reply_to[512];
    unsigned replies;
    /* The message that is arriving. A link has one at a time; so has this program, with few links. */
    char *input;
    size_t input_size, input_capacity;
    bool over;
    int code;
} client_t;

static void finish(client_t *client, int code, const char *format, ...) {
    if (client->over) return;
    client->over = true;
    client->code = code;
    printf(code ? "FAIL " : "PASS ");
    va_list words;
    va_start(words, format);
    vprintf(format, words);
    va_end(words);
    printf(" (sent %u received %u accepted %u settled %u replies %u)\n", client->sent, client->received,
           client->accepted, client->settled, client->replies);
    pn_connection_close(client->connection);
}

static size_t body_of(unsigned i, char *body) {
    size_t size = (i * 37) % 1024;
    switch (i % 50) {
        case 0: size = 65536; break;
        case 1: size = 20000; break;
        case 2: size = 0; break;
    }
    for (size_t j = 0; j < size; j++) body[j] = (char)(i + j);
    return size;
}

static void send_message(client_t *client, pn_link_t *link, pn_message_t *message) {
    static char buffer[MESSAGE_BYTES_MAX];
    static unsigned tag = 0;
    size_t size = sizeof buffer;
    if (pn_message_encode(message, buffer, &size) != 0) {
        finish(client, 1, "a message can't be encoded: %s", pn_error_text(pn_message_error(message)));
        return;
    }
    tag++;
    pn_delivery_t *delivery = pn_delivery(link, pn_dtag((const char *)&tag, sizeof tag));
    pn_link_send(link, buffer, size);
    if (client->is_settled) pn_delivery_settle(delivery);
    pn_link_advance(link);
}

static pn_msgid_t id_of(unsigned i) {
    return (pn_msgid_t){.type = PN_ULONG, .u.as_ulong = i};
}

/* Sends as long as there is credit and something to send; to hear outcomes, one message at a time, since Proton
 * tells the outcomes of several in any order. */
static void send_numbered(client_t *client) {
    static char body[BODY_BYTES_MAX];
    unsigned limit = client->is_outcomes ? client->settled + 1 : client->count;
    if (limit > client->count) limit = client->count;
    while (pn_link_credit(client->sender) > 0 && client->sent < limit) {
        unsigned i = client->is_outcomes ? client->sent + 3 : client->sent;
        pn_message_t *message = pn_message();
        pn_message_set_id(message, id_of(i));
        pn_data_put_binary(pn_message_body(message), pn_bytes(body_of(i, body), body));
        pn_message_set_inferred(message, true);
        send_message(client, client->sender, message);
        pn_message_free(message);
        client->sent++;
    }
}

static void ask(client_t *client) {
    pn_message_t *message = pn_message();
    pn_message_set_id(message, id_of(client->replies));
    pn_message_set_reply_to(message, client->reply_to);
    pn_data_put_string(pn_message_body(message), pn_bytes(8, "question"));
    send_message(client, client->sender, message);
    pn_message_free(message);
    client->sent++;
}

static void answer(client_t *client, pn_message_t *question) {
    pn_message_t *reply = pn_message();
    pn_message_set_address(reply, pn_message_get_reply_to(question));
    pn_message_set_correlation_id(reply, pn_message_get_id(question));
    pn_data_next(pn_message_body(question));
    pn_bytes_t text = pn_data_get_string(pn_message_body(question));
    char capitals[64];
    size_t size = text.size < sizeof capitals ? text.size : sizeof capitals;
    for (size_t j = 0; j < size; j++) capitals[j] = (char)toupper(text.start[j]);
    pn_data_put_string(pn_message_body(reply), pn_bytes(size, capitals));
    send_message(client, client->answers, reply);
    pn_message_free(reply);
}

/* Gives the receiver's outcome of the delivery. */
static void dispose(client_t *client, pn_delivery_t *delivery) {
    pn_disposition_t *local = pn_delivery_local(delivery);
    uint64_t state = PN_ACCEPTED;
    if (client->is_outcomes) {
        switch (client->received) {
            case 1: {
                state = PN_REJECTED;
                pn_condition_t *condition = pn_disposition_condition(local);
                pn_condition_set_name(condition, "app:bad-colour");
                pn_condition_set_description(condition, "not green enough");
                pn_data_fill(pn_condition_info(condition), "{SiSS}", "hue", 121, "who", "me");
                break;
            }
            case 2: state = PN_RELEASED; break;
            case 3:
                state = PN_MODIFIED;
                pn_disposition_set_failed(local, true);
                pn_disposition_set_undeliverable(local, true);
                pn_data_put_map(pn_disposition_annotations(local));
                pn_data_enter(pn_disposition_annotations(local));
                pn_data_put_symbol(pn_disposition_annotations(local), pn_bytes(9, "x-opt-why"));
                pn_data_put_string(pn_disposition_annotations(local), pn_bytes(4, "busy"));
                pn_data_exit(pn_disposition_annotations(local));
                break;
            case 4:
                state = PN_MODIFIED;
                pn_disposition_set_failed(local, true);
                break;
        }
    }
    pn_delivery_update(delivery, state);
    pn_delivery_settle(delivery);
}

static void take_message(client_t *client, pn_delivery_t *delivery, pn_message_t *message) {
    static char body[BODY_BYTES_MAX];
    pn_link_t *link = pn_delivery_link(delivery);
    pn_data_t *data = pn_message_body(message);
    if (client->is_request && link == client->receiver) {
        answer(client, message);
    } else if (client->is_request) {
        unsigned id = (unsigned)pn_message_get_correlation_id(message).u.as_ulong;
        pn_data_next(data);
        pn_bytes_t text = pn_data_get_string(data);
        if (id != client->replies) finish(client, 1, "reply %u", id);
        if (text.size != 8 || memcmp(text.start, "QUESTION", 8) != 0) finish(client, 1, "a wrong reply");
        if (++client->replies == 100) finish(client, 0, "100 replies");
        else ask(client);
    } else {
        unsigned i = client->is_outcomes ? client->received + 3 : client->received;
        unsigned id = (unsigned)pn_message_get_id(message).u.as_ulong;
        if (id != i) finish(client, 1, "message %u instead of %u", id, i);
        pn_data_next(data);
        pn_bytes_t bytes = pn_data_get_binary(data);
        if (bytes.size != body_of(i, body) || memcmp(bytes.start, body, bytes.size) != 0)
            finish(client, 1, "the body of message %u is wrong", id);
        if (pn_delivery_settled(delivery) != client->is_settled) finish(client, 1, "settled is wrong");
    }
    dispose(client, delivery);
    client->received++;
    pn_link_flow(link, 1);
}

/* Some bytes of a delivery arrived. */
static void take_bytes(client_t *client, pn_delivery_t *delivery) {
    size_t more = pn_delivery_pending(delivery);
    if (client->input_size + more > client->input_capacity) {
        client->input_capacity = (client->input_size + more) * 2;
        client->input = realloc(client->input, client->input_capacity);
    }
    ssize_t count = pn_link_recv(pn_delivery_link(delivery), client->input + client->input_size, more);
    if (count > 0) client->input_size += (size_t)count;
    if (pn_delivery_partial(delivery)) return;
    pn_message_t *message = pn_message();
    if (pn_message_decode(message, client->input, client->input_size) != 0)
        finish(client, 1, "a message of %zu bytes can't be decoded", client->input_size);
    client->input_size = 0;
    take_message(client, delivery, message);
    pn_message_free(message);
}

/* Compares a value, as Proton shows it, to `wanted`. */
static void expect_data(client_t *client, pn_data_t *data, const char *wanted) {
    pn_string_t *text = pn_string(NULL);
    pn_inspect(data, text);
    if (strcmp(pn_string_get(text), wanted) != 0) finish(client, 1, "%s instead of %s", pn_string_get(text), wanted);
    pn_free(text);
}

/* Compares what the sender hears of delivery `number` to what `dispose` said. */
static void judge(client_t *client, pn_delivery_t *delivery, unsigned number) {
    static const uint64_t states[] = {PN_ACCEPTED, PN_REJECTED, PN_RELEASED, PN_MODIFIED, PN_MODIFIED};
    pn_disposition_t *remote = pn_delivery_remote(delivery);
    uint64_t state = pn_delivery_remote_state(delivery);
    if (number >= 5 || state != states[number])
        finish(client, 1, "outcome %u has state %#lx", number, (unsigned long)state);
    else if (number == 1) {
        pn_condition_t *condition = pn_disposition_condition(remote);
        const char *name = pn_condition_get_name(condition), *description = pn_condition_get_description(condition);
        if (!name || !description || strcmp(name, "app:bad-colour") || strcmp(description, "not green enough"))
            finish(client, 1, "rejected with %s %s", name ? name : "-", description ? description : "-");
        expect_data(client, pn_condition_info(condition), "{\"hue\"=121, \"who\"=\"me\"}");
    } else if (number >= 3) {
        bool is_full = number == 3;
        if (!pn_disposition_is_failed(remote) || pn_disposition_is_undeliverable(remote) != is_full)
            finish(client, 1, "modified %u: wrong flags", number);
        if (is_full) expect_data(client, pn_disposition_annotations(remote), "{:\"x-opt-why\"=\"busy\"}");
    }
}

/* An outgoing delivery changed. */
static void take_outcome(client_t *client, pn_delivery_t *delivery) {
    if (!pn_delivery_updated(delivery)) return;
    uint64_t state = pn_delivery_remote_state(delivery);
    if (client->is_outcomes) judge(client, delivery, client->settled);
    else if (state != PN_ACCEPTED) finish(client, 1, "a delivery's state is %#lx", (unsigned long)state);
    if (state == PN_ACCEPTED) client->accepted++;
    if (pn_delivery_settled(delivery)) {
        client->settled++;
        pn_delivery_settle(delivery);
        if (client->is_outcomes) send_numbered(client);
    }
}

static void look(client_t *client) {
    if (client->is_request || client->received < client->count) return;
    unsigned wanted = client->is_settled ? 0 : client->count;
    if (client->settled == wanted && (client->is_outcomes || client->accepted == wanted)) finish(client, 0, "all");
}

static void begin(client_t *client, pn_connection_t *connection) {
    client->connection = connection;
    pn_connection_set_container(connection, "proton-c");
    pn_connection_open(connection);
    pn_session_t *session = pn_session(connection);
    pn_session_open(session);
    client->receiver = pn_receiver(session, "my_receiver");
    pn_terminus_set_address(pn_link_source(client->receiver), client->address);
    if (client->is_settled) pn_link_set_snd_settle_mode(client->receiver, PN_SND_SETTLED);
    pn_link_open(client->receiver);
    pn_link_flow(client->receiver, 100);
    if (!client->is_request) return;
    client->answers = pn_sender(session, "answers");
    pn_link_open(client->answers);
    client->inbox = pn_receiver(session, "inbox");
    pn_terminus_set_dynamic(pn_link_source(client->inbox), true);
    pn_link_open(client->inbox);
    pn_link_flow(client->inbox, 10);
}

/* A link was attached by the router: the sender's turn, once the receivers are there. */
static void link_opened(client_t *client, pn_link_t *link) {
    if (link != (client->is_request ? client->inbox : client->receiver)) return;
    if (client->is_request) {
        const char *address = pn_terminus_get_address(pn_link_remote_source(link));
        if (!address) finish(client, 1, "a dynamic source without an address");
        else snprintf(client->reply_to, sizeof client->reply_to, "%s", address);
    }
    client->sender = pn_sender(pn_link_session(link), "my_sender");
    pn_terminus_set_address(pn_link_target(client->sender), client->address);
    if (client->is_settled) pn_link_set_snd_settle_mode(client->sender, PN_SND_SETTLED);
    pn_link_open(client->sender);
}

static void check_condition(client_t *client, pn_condition_t *condition, const char *what) {
    if (pn_condition_is_set(condition))
        finish(client, 1, "%s: %s %s", what, pn_condition_get_name(condition), pn_condition_get_description(condition));
    else if (!client->over)
        finish(client, 1, "%s without an error", what);
}

static bool handle(client_t *client, pn_event_t *event) {
    switch (pn_event_type(event)) {
        case PN_CONNECTION_INIT: begin(client, pn_event_connection(event)); break;
        case PN_CONNECTION_BOUND: pn_transport_set_max_frame(pn_event_transport(event), 4096); break;
        case PN_LINK_REMOTE_OPEN: link_opened(client, pn_event_link(event)); break;
        case PN_LINK_FLOW:
            if (!client->sender || pn_event_link(event) != client->sender) break;
            if (!client->is_request) send_numbered(client);
            else if (client->sent == 0 && pn_link_credit(client->sender) > 0) ask(client);
            break;
        case PN_DELIVERY: {
            pn_delivery_t *delivery = pn_event_delivery(event);
            if (!pn_link_is_receiver(pn_delivery_link(delivery))) take_outcome(client, delivery);
            else if (pn_delivery_readable(delivery)) take_bytes(client, delivery);
            look(client);
            break;
        }
        case PN_TRANSPORT_CLOSED:
            check_condition(client, pn_transport_condition(pn_event_transport(event)), "the transport closed");
            break;
        case PN_CONNECTION_REMOTE_CLOSE:
            check_condition(client, pn_connection_remote_condition(pn_event_connection(event)), "connection closed");
            break;
        case PN_SESSION_REMOTE_CLOSE:
            check_condition(client, pn_session_remote_condition(pn_event_session(event)), "session ended");
            break;
        case PN_LINK_REMOTE_CLOSE:
        case PN_LINK_REMOTE_DETACH:
            check_condition(client, pn_link_remote_condition(pn_event_link(event)), "link detached");
            break;
        case PN_PROACTOR_TIMEOUT: finish(client, 1, "time is over"); break;
        case PN_PROACTOR_INACTIVE: return false;
        default: break;
    }
    if (client->over) pn_proactor_cancel_timeout(client->proactor);
    return true;
}

static void run(client_t *client) {
    for (;;) {
        pn_event_batch_t *batch = pn_proactor_wait(client->proactor);
        pn_event_t *event;
        while ((event = pn_event_batch_next(batch))) {
            if (!handle(client, event)) return;
        }
        pn_proactor_done(client->proactor, batch);
    }
}

int main(int count, char **words) {
    if (count != 5) {
        printf("FAIL usage: client SCENARIO HOST PORT ADDRESS\n");
        return 2;
    }
    client_t client = {.scenario = words[1], .address = words[4], .code = 1, .count = 10000};
    client.is_settled = strcmp(words[1], "presettled") == 0;
    client.is_outcomes = strcmp(words[1], "outcomes") == 0;
    client.is_request = strcmp(words[1], "request") == 0;
    if (client.is_settled) client.count = 1000;
    if (client.is_outcomes) client.count = 5;
    char address[PN_MAX_ADDR];
    client.proactor = pn_proactor();
    pn_proactor_addr(address, sizeof address, words[2], words[3]);
    pn_proactor_set_timeout(client.proactor, LIMIT_MILLISECONDS);
    pn_proactor_connect2(client.proactor, NULL, NULL, address);
    run(&client);
    pn_proactor_free(client.proactor);
    free(client.input);
    return client.code;
}
