/* SPDX-License-Identifier: BSD-3-Clause
 * For programs that look after the process of their copy engine. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The child of this process that is the engine; 0: there is none. */
static inline int engine_pid(void) {
    DIR *processes = opendir("/proc");
    int found = 0;

    for (struct dirent *entry; !found && (entry = readdir(processes));) {
        char path[300], text[256] = "", name[64];
        int parent = 0;
        FILE *file;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        if (atoi(entry->d_name) <= 0 || !(file = fopen(path, "r")))
            continue;
        if (fgets(text, sizeof text, file) && sscanf(text, "%*d (%63[^)]) %*c %d", name, &parent) == 2 &&
            parent == getpid() && !strncmp(name, "pyshmem-engine", 14))
            found = atoi(entry->d_name);
        fclose(file);
    }
    closedir(processes);
    return found;
}
