/* SPDX-License-Identifier: BSD-3-Clause
 * See join.h. What launchers of others have (a store, PMI) need not speak here: whoever can hand one short text to all
 * PEs hands out PYSHMEM_RENDEZVOUS and PYSHMEM_SECRET. */
#include "join/join.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "join/tcp.h"

/* ---- the rendezvous at PE 0 ---- */

/* Kept for the next job of this process, as its variable is gone then. */
static struct {
    bool known;
    unsigned char bytes[PYSH_TCP_SECRET_BYTES];
} secret;

static int nibble(char digit) {
    const char *digits = "0123456789abcdef", *found = digit ? strchr(digits, digit | 0x20) : NULL;

    return found ? (int)(found - digits) : -1;
}

/* The text goes out of the environment, so that what the program starts does not have it. */
static int take_secret(void) {
    const char *text, *origin;
    int status = ishmemx_setting("SECRET", &text, &origin);

    if (status || (!*text && secret.known))
        return status;
    if (strlen(text) != 2 * sizeof secret.bytes)
        return pysh_fail(
            ISHMEMX_ERR_ARGUMENT,
            "PYSHMEM_RENDEZVOUS says where PE 0 is met, but PYSHMEM_SECRET %s, which proves who belongs to "
            "the job: %zu hexadecimal digits, the same for all its PEs",
            *text ? "has another length than what is needed" : "is not set", 2 * sizeof secret.bytes);
    for (size_t i = 0; i < sizeof secret.bytes; i++) {
        int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PYSHMEM_SECRET has other characters than hexadecimal digits");
        secret.bytes[i] = (unsigned char)(high << 4 | low);
    }
    secret.known = true;
    unsetenv("PYSHMEM_SECRET");
    return ISHMEMX_OK;
}

/* "host:port", or "[address]:port". */
static int split_address(const char *text, char *host, size_t capacity, const char **port_p) {
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool bracketed = length > 2 && text[0] == '[' && text[length - 1] == ']';

    if (!length || !colon[1] || length >= capacity)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PYSHMEM_RENDEZVOUS is '%s', not host:port or [address]:port", text);
    snprintf(host, capacity, "%.*s", (int)(bracketed ? length - 2 : length), text + bracketed);
    *port_p = colon + 1;
    return ISHMEMX_OK;
}

static bool tcp_is_there(void) {
    const char *text, *origin;

    return ishmemx_setting("RENDEZVOUS", &text, &origin) == ISHMEMX_OK && *text;
}

/* A socket that somebody has opened for PE 0 serves its first job. */
static int take_listener(int *listener_p) {
    static bool taken;
    int64_t fd;
    int status = ishmemx_setting_number("RENDEZVOUS_FD", &fd);

    if (status || taken || fd <= 0)
        return status;
    taken = true;
    *listener_p = (int)fd;
    return ISHMEMX_OK;
}

static int tcp_exchange(const ishmemx_config_t *config, const void *mine, void *all, size_t nbytes) {
    pysh_tcp_meeting_t meeting = {
        .pe = config->pe, .n_pes = config->n_pes, .nbytes = nbytes, .timeout_ns = config->init_timeout_ns};
    const char *text, *origin;
    char host[256];
    int status = ishmemx_setting("RENDEZVOUS", &text, &origin);

    if (status || (status = split_address(text, host, sizeof host, &meeting.port)) || (status = take_secret()) ||
        (config->pe == 0 && (status = take_listener(&meeting.listener))))
        return status;
    meeting.host = host;
    memcpy(meeting.secret, secret.bytes, sizeof meeting.secret);
    return pysh_tcp_exchange(&meeting, mine, all, NULL);
}

/* ---- the ways, in the order in which they are looked for ---- */

static const pysh_join_t ways[] = {
    {"PYSHMEM_RENDEZVOUS: PE 0 at an address, over TCP with a secret", tcp_is_there, tcp_exchange}};

const char *ishmemx_join(void) {
    const pysh_join_t *way = pysh_join_find();

    return way ? way->name : "nothing here: all PEs are on this host";
}

const pysh_join_t *pysh_join_find(void) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].is_there())
            return &ways[i];
    return NULL;
}
