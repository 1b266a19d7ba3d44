/* SPDX-License-Identifier: BSD-3-Clause
 * The settings table of pyshmem/_core/settings.py: finds the text of a setting and parses it. */
#include "base/settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "ishmemx.h"
#include "pysh_settings.h"
#include "shmem.h"

typedef struct setting {
    const char *name, *variable, *kind, *initial, *alias;
} setting_t;

static const setting_t settings[] = {
#define ROW(_name, _kind, _initial, _alias) {#_name, "PYSHMEM_" #_name, _kind, _initial, _alias},
    PYSH_SETTINGS(ROW)
#undef ROW
};

#define N_SETTINGS (sizeof settings / sizeof *settings)

static const setting_t *setting_find(const char *name) {
    for (size_t i = 0; i < N_SETTINGS; i++)
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i];
    return NULL;
}

/* An empty variable counts as one that is not set. */
static const char *variable_text(const char *variable) {
    const char *text = *variable ? getenv(variable) : NULL;
    return text && *text ? text : NULL;
}

int ishmemx_setting(const char *name, const char **text, const char **origin) {
    const setting_t *setting = setting_find(name);
    const char *found;

    if (!setting)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "there is no setting PYSHMEM_%s", name);
    if ((found = variable_text(setting->variable))) {
        *text = found;
        *origin = setting->variable;
    } else if ((found = variable_text(setting->alias))) {
        *text = found;
        *origin = setting->alias;
    } else {
        *text = setting->initial;
        *origin = "default";
    }
    return ISHMEMX_OK;
}

/* ---- parsers: true when all of `text` was understood ---- */

/* A decimal number with optional fraction, times `scale`; *rest_p is what follows it. Without strtod,
 * which reads "1.5" differently in a locale with a decimal comma. */
static bool parse_scaled(const char *text, double scale, double *value_p, const char **rest_p) {
    double value = 0, place = 1;
    bool digits = false;

    for (; *text >= '0' && *text <= '9'; text++, digits = true)
        value = value * 10 + (*text - '0');
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++, digits = true)
            value += (*text - '0') * (place /= 10);
    *value_p = value * scale;
    *rest_p = text;
    return digits;
}

static bool parse_size(const char *text, int64_t *nbytes_p) {
    static const char suffixes[] = "KMGT";
    const char *rest, *suffix;
    double value;

    if (!parse_scaled(text, 1, &value, &rest))
        return false;
    if (*rest && (suffix = strchr(suffixes, *rest & ~0x20))) {
        for (const char *step = suffixes; step <= suffix; step++)
            value *= 1024;
        rest++;
        if (*rest == 'i')
            rest++;
    }
    if (*rest == 'B' || *rest == 'b')
        rest++;
    if (*rest || value >= 0x1p63)
        return false;
    *nbytes_p = (int64_t)value;
    return true;
}

static bool parse_seconds(const char *text, int64_t *ns_p) {
    double value;
    const char *rest;

    if (!parse_scaled(text, 1e9, &value, &rest) || *rest || value >= 0x1p63)
        return false;
    *ns_p = (int64_t)value;
    return true;
}

/* `bounds` is "low:high", or "low:" or nothing. */
static bool parse_integer(const char *bounds, const char *text, int64_t *value_p) {
    char *rest;
    int64_t value, least = INT64_MIN, most = INT64_MAX;

    if (*bounds) {
        least = strtoll(bounds, &rest, 10);
        if (rest[1])
            most = strtoll(rest + 1, NULL, 10);
    }
    errno = 0;
    value = strtoll(text, &rest, 10);
    if (rest == text || *rest || errno || value < least || value > most)
        return false;
    *value_p = value;
    return true;
}

static bool parse_flag(const char *text, int64_t *value_p) {
    static const char *const words[] = {"0", "1", "no", "yes", "false", "true", "off", "on"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *value_p = i % 2;
            return true;
        }
    }
    return false;
}

/* `choices` is "a|b|c". */
static bool parse_choice(const char *choices, const char *text, int64_t *value_p) {
    size_t length = strlen(text);

    for (int64_t position = 0;; position++) {
        size_t span = strcspn(choices, "|");
        if (span == length && strncasecmp(choices, text, length) == 0) {
            *value_p = position;
            return true;
        }
        if (!choices[span])
            return false;
        choices += span + 1;
    }
}

/* A list with commas: words of `words`, "a|b|c", whose bits are 1, 2, 4, ...; 1 for the first of them, and 0, or
 * what else is false of a flag, for none. Not what else is true of one: "yes" does not say to which. */
static bool parse_words(const char *words, const char *text, int64_t *value_p) {
    int64_t bits = 0;

    for (;; text++) {
        size_t span = strcspn(text, ",");
        char one[16];
        int64_t value;

        if (span >= sizeof one)
            return false;
        memcpy(one, text, span);
        one[span] = '\0';
        if (parse_flag(one, &value) && (!value || strcmp(one, "1") == 0))
            bits |= value;
        else if (parse_choice(words, one, &value))
            bits |= INT64_C(1) << value;
        else
            return false;
        text += span;
        if (!*text)
            break;
    }
    *value_p = bits;
    return true;
}

int ishmemx_parse_size(const char *text, int64_t *nbytes) {
    if (!parse_size(text, nbytes))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "'%s' is not a size such as 1.5G or 64k", text);
    return ISHMEMX_OK;
}

/* " from 1 to 4", " from 1", or nothing. */
static void write_bounds(const char *bounds, char *text, size_t room) {
    size_t least = strcspn(bounds, ":");

    if (*bounds)
        snprintf(text, room, " from %.*s%s%s", (int)least, bounds, bounds[least + 1] ? " to " : "", bounds + least + 1);
}

/* Flags and lists of words that begin with one: an alias, as SHMEM_DEBUG, may be anything. */
static bool alias_is_set(const setting_t *setting, const char *origin, bool good, int64_t *value) {
    if (!good && strcmp(origin, setting->alias) == 0)
        *value = good = true;
    return good;
}

/* `text` as the kind of `setting` has it; an error names `origin`. */
static int setting_number_of(const setting_t *setting, const char *text, const char *origin, int64_t *value) {
    const char *details, *wanted = NULL;
    char bounds[64] = "";
    bool good = false;

    details = setting->kind + strcspn(setting->kind, ":");
    details += *details == ':';
    if (strcmp(setting->kind, "size") == 0) {
        good = parse_size(text, value);
        wanted = "a size such as 1.5G or 64k";
    } else if (strcmp(setting->kind, "seconds") == 0) {
        good = parse_seconds(text, value);
        wanted = "a number of seconds such as 2.5";
    } else if (strncmp(setting->kind, "integer", 7) == 0) {
        good = parse_integer(details, text, value);
        wanted = "an integer";
        write_bounds(details, bounds, sizeof bounds);
    } else if (strcmp(setting->kind, "flag") == 0) {
        good = alias_is_set(setting, origin, parse_flag(text, value), value);
        wanted = "0 or 1";
    } else if (strncmp(setting->kind, "words:", 6) == 0) {
        good = alias_is_set(setting, origin, parse_words(details, text, value), value);
        wanted = details;
    } else if (strncmp(setting->kind, "choice:", 7) == 0) {
        good = parse_choice(details, text, value);
        wanted = details;
    }
    if (!wanted)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "setting %s is no number", setting->variable);
    if (!good)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s is '%s', which is not %s%s%s",
                         strcmp(origin, "default") == 0 ? setting->variable : origin, text,
                         wanted != details       ? ""
                         : *setting->kind == 'w' ? "0, 1 or a list of "
                                                 : "one of ",
                         wanted, bounds);
    return ISHMEMX_OK;
}

int ishmemx_setting_number(const char *name, int64_t *value) {
    const char *text, *origin;
    int status = ishmemx_setting(name, &text, &origin);

    return status ? status : setting_number_of(setting_find(name), text, origin, value);
}

int ishmemx_setting_check(const char *variable, const char *text, int64_t *value) {
    int64_t ignored;

    for (size_t i = 0; i < N_SETTINGS && *text; i++)
        if ((strcmp(settings[i].variable, variable) == 0 || strcmp(settings[i].alias, variable) == 0) &&
            strcmp(settings[i].kind, "string") != 0)
            return setting_number_of(&settings[i], text, variable, value ? value : &ignored);
    return ISHMEMX_OK;
}

int ishmemx_settings_check(void) {
    int64_t ignored;
    int status = ISHMEMX_OK;

    for (size_t i = 0; i < N_SETTINGS && !status; i++)
        if (strcmp(settings[i].kind, "string") != 0)
            status = ishmemx_setting_number(settings[i].name, &ignored);
    return status;
}

void pysh_settings_announce(void) {
    const char *text, *origin;

    if (variable_text("SHMEM_VERSION") || variable_text("SHMEM_INFO"))
        printf("pyshmem %s, OpenSHMEM %d.%d\n", PYSHMEM_VERSION, SHMEM_MAJOR_VERSION, SHMEM_MINOR_VERSION);
    for (size_t i = 0; i < N_SETTINGS && variable_text("SHMEM_INFO"); i++)
        if (!ishmemx_setting(settings[i].name, &text, &origin))
            printf("  %-26s %s = %s (%s)\n", settings[i].variable, settings[i].kind, *text ? text : "''", origin);
    fflush(stdout);
}
