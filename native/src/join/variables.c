/* SPDX-License-Identifier: BSD-3-Clause
 * Where a process learns its place in the job: from our launcher's settings or from the environment
 * that another launcher made. */
#include "join/variables.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/status.h"
#include "ishmemx.h"

#define JOB_CAPACITY 512

/* Variables of a launcher. It is recognised by `pe`, `n_pes` and, where given, `marker`. The job's
 * name is made of all the `job` variables that are set: each is the same on all PEs. */
typedef struct launcher {
    const char *name, *marker, *pe, *n_pes, *local_pe, *local_n_pes;
    const char *job[4];
} launcher_t;

/* The first that fits is taken, so inner launchers (torchrun under srun) stand before outer ones. */
static const launcher_t launchers[] = {
    {"torchrun",
     "TORCHELASTIC_RUN_ID",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}},
    {"Open MPI",
     NULL,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"PALS", "PALS_RANKID", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", {"PALS_APID"}},
    {"PMI", NULL, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"PMI_JOBID", "PALS_APID", "PMI_PORT"}},
    /* A batch script has SLURM_PROCID too, but only srun sets the number of tasks of a step. */
    {"Slurm",
     "SLURM_STEP_ID",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     NULL,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"Flux", NULL, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL, {"FLUX_JOB_ID"}},
    {"the RANK and WORLD_SIZE variables",
     NULL,
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT"}},
};

#define N_LAUNCHERS (sizeof launchers / sizeof *launchers)

/* Who starts PEs by another launcher's means (PMI) may say by these how many hosts they are on. */
static const struct {
    const char *n_pes, *n_hosts;
} steps[] = {
    {"SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES"},
    {"FLUX_JOB_SIZE", "FLUX_JOB_NNODES"},
};

#define N_STEPS (sizeof steps / sizeof *steps)

static const char *variable(const char *name) {
    const char *text = name ? getenv(name) : NULL;
    return text && *text ? text : NULL;
}

/* Our launcher gives its PEs RANK and WORLD_SIZE too, for others' use (launcher/torchrun_names.py). A process that a PE
 * started has them still, and is no PE by that. */
static bool inherited_from_pe(const launcher_t *launcher) {
    const char *mark = variable("RANK_SET_BY");
    char ours[64];

    if (launcher->marker || strcmp(launcher->pe, "RANK") != 0 || !mark)
        return false;
    snprintf(ours, sizeof ours, "pyshmem:%s/%s", variable("RANK"), variable("WORLD_SIZE"));
    return strcmp(mark, ours) == 0;
}

static const launcher_t *launcher_find(void) {
    for (size_t i = 0; i < N_LAUNCHERS; i++) {
        const launcher_t *launcher = &launchers[i];
        if (variable(launcher->pe) && variable(launcher->n_pes) && (!launcher->marker || variable(launcher->marker)) &&
            !inherited_from_pe(launcher))
            return launcher;
    }
    return NULL;
}

/* Says nothing where it is no number. */
static bool launcher_number_of(const char *text, int *value_p) {
    char *rest;
    long value;

    errno = 0;
    value = strtol(text, &rest, 10);
    if (errno || *rest || value < 0 || value > INT_MAX)
        return false;
    *value_p = (int)value;
    return true;
}

static int variable_number(const char *name, int *value_p) {
    const char *text = variable(name);

    if (!launcher_number_of(text, value_p))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s is '%s', which is not a number of PEs", name, text);
    return ISHMEMX_OK;
}

/* The launcher gives no name of the job: its PEs on one host are children of one process. */
static const char *job_name(const launcher_t *launcher) {
    static char job[JOB_CAPACITY];
    size_t used = 0;

    for (size_t i = 0; i < sizeof launcher->job / sizeof *launcher->job; i++) {
        const char *text = variable(launcher->job[i]);
        if (text && used < sizeof job)
            used += (size_t)snprintf(job + used, sizeof job - used, "%s%s", used ? "." : "", text);
    }
    if (!used)
        snprintf(job, sizeof job, "parent.%ld", (long)getppid());
    return job;
}

/* Only torchrun and those like it name the PEs' meeting place by an address: one of this host alone is none of several.
 */
static bool meets_on_this_host(const launcher_t *launcher) {
    const char *address = strcmp(launcher->pe, "RANK") == 0 ? variable("MASTER_ADDR") : NULL;

    return address && (strncmp(address, "127.", 4) == 0 || strcmp(address, "localhost") == 0 ||
                       strcmp(address, "::1") == 0 || strcmp(address, "[::1]") == 0);
}

static int place_from_launcher(const launcher_t *launcher, ishmemx_config_t *config) {
    int status = variable_number(launcher->pe, &config->pe);

    if (!status)
        status = variable_number(launcher->n_pes, &config->n_pes);
    if (!status) {
        config->local_pe = config->pe;
        /* Of several torchruns on one host each counts its own. */
        if (variable(launcher->local_pe) && !meets_on_this_host(launcher))
            status = variable_number(launcher->local_pe, &config->local_pe);
    }
    if (!status && (config->n_pes < 1 || config->pe >= config->n_pes))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s is %d, outside a job of %d PEs (%s)", launcher->pe, config->pe,
                         config->n_pes, launcher->n_pes);
    if (!status && !*config->job)
        config->job = job_name(launcher);
    return status;
}

/* One of the two variables is set without the other. */
static int half_a_place(const char *pe, const char *n_pes) {
    const char *set = variable(pe) ? pe : n_pes;

    return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                     "%s is set, but %s is not: unset it, or set both on each PE; `python -m pyshmem run -n 2 ...` "
                     "starts two PEs",
                     set, set == pe ? n_pes : pe);
}

int pysh_launcher_refuse_half_a_rank(const ishmemx_config_t *config) {
    const char *pe = variable("RANK"), *n_pes = variable("WORLD_SIZE");
    int number;

    if (config->n_pes > 1 || (config->job && *config->job) || variable("PYSHMEM_PE"))
        return ISHMEMX_OK; /* the caller, or a launcher, has said which PE this is */
    if (!pe == !n_pes || !launcher_number_of(pe ? pe : n_pes, &number) || number < (pe ? 1 : 2))
        return ISHMEMX_OK; /* what a job of one PE may have, or a word of somebody else's */
    return half_a_place("RANK", "WORLD_SIZE");
}

/* Our launcher's settings; *known_p tells whether they are there. */
static int place_from_settings(ishmemx_config_t *config, bool *known_p) {
    int64_t pe, n_pes, local_pe, control_fd;
    const char *origin;
    int status;

    if ((status = ishmemx_setting_number("PE", &pe)) || (status = ishmemx_setting_number("N_PES", &n_pes)) ||
        (status = ishmemx_setting_number("LOCAL_PE", &local_pe)) ||
        (status = ishmemx_setting_number("CONTROL_FD", &control_fd)) ||
        (status = ishmemx_setting("JOB", &config->job, &origin)))
        return status;
    *known_p = pe != -1 || n_pes != -1;
    if (!*known_p)
        return ISHMEMX_OK;
    if (!variable("PYSHMEM_PE") || !variable("PYSHMEM_N_PES"))
        return half_a_place("PYSHMEM_PE", "PYSHMEM_N_PES");
    if (n_pes < 1 || n_pes > INT_MAX || pe < 0 || pe >= n_pes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "PYSHMEM_PE is %lld and PYSHMEM_N_PES is %lld: a launcher sets both, with 0 <= PE < N_PES",
                         (long long)pe, (long long)n_pes);
    if (n_pes > 1 && !*config->job)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "PYSHMEM_N_PES is %lld but PYSHMEM_JOB is not set; give all PEs the same name, or start them "
                         "with `python -m pyshmem run`",
                         (long long)n_pes);
    config->pe = (int)pe;
    config->n_pes = (int)n_pes;
    config->local_pe = (int)(local_pe < 0 || local_pe > INT_MAX ? pe : local_pe);
    config->control_fd = (int)control_fd;
    return ISHMEMX_OK;
}

int ishmemx_config_from_environment(ishmemx_config_t *config) {
    ishmemx_config_t made = {.n_pes = 1,
                             .control_fd = -1,
                             .device = -1,
                             .accelerator = ISHMEMX_DEVICE_NONE,
                             .version = PYSHMEM_VERSION " for " PYSHMEM_MACHINE};
    const launcher_t *launcher;
    const char *text, *origin;
    int64_t check;
    bool known;
    int status;

    if ((status = ishmemx_settings_check()) || (status = ishmemx_setting_number("HEAP_SIZE", &made.heap_bytes)) ||
        (status = ishmemx_setting_number("DEVICE_HEAP_SIZE", &made.device_heap_bytes)) ||
        (status = ishmemx_setting("DEVICE_HEAP_SIZE", &text, &origin)) ||
        (status = ishmemx_setting_number("TIMEOUT", &made.timeout_ns)) ||
        (status = ishmemx_setting_number("INIT_TIMEOUT", &made.init_timeout_ns)) ||
        (status = ishmemx_setting_number("CHECK", &check)) || (status = ishmemx_setting_number("SPIN", &made.spin)) ||
        (status = place_from_settings(&made, &known)))
        return status;
    made.check = (int)check;
    made.device_heap_given = strcmp(origin, "default") != 0;
    launcher = known ? NULL : launcher_find();
    if (launcher && (status = place_from_launcher(launcher, &made)))
        return status;
    *config = made;
    return ISHMEMX_OK;
}

int pysh_launcher_pe(void) {
    const char *ours = variable("PYSHMEM_PE");
    const launcher_t *launcher = ours ? NULL : launcher_find();
    const char *text = launcher ? variable(launcher->pe) : ours;
    int pe;

    return text && launcher_number_of(text, &pe) ? pe : -1;
}

/* ---- is it on several hosts, and an OpenSHMEM job? ---- */

static bool is_number(const char *name, int *value_p) {
    return variable(name) && !variable_number(name, value_p);
}

static bool launcher_spans_hosts(const launcher_t *launcher) {
    int n_pes, local, of_step, n_hosts;

    if (!is_number(launcher->n_pes, &n_pes))
        return false;
    if (is_number(launcher->local_n_pes, &local))
        return local < n_pes && !meets_on_this_host(launcher);
    for (size_t i = 0; i < N_STEPS; i++)
        if (is_number(steps[i].n_pes, &of_step) && of_step == n_pes && is_number(steps[i].n_hosts, &n_hosts) &&
            n_hosts > 1)
            return true;
    return false;
}

bool pysh_launcher_several_hosts(int n_pes) {
    const launcher_t *launcher = launcher_find();
    int of_launcher = 0;

    return launcher && is_number(launcher->n_pes, &of_launcher) && of_launcher == n_pes &&
           launcher_spans_hosts(launcher);
}

bool pysh_launcher_by_rank(void) {
    return launcher_find() == &launchers[N_LAUNCHERS - 1];
}

const char *pysh_launcher_one_host(void) {
    const launcher_t *launcher = launcher_find();

    return launcher && strcmp(launcher->pe, "RANK") == 0
               ? "; where all PEs are on one host, start them with one torchrun (--nproc-per-node), or give each "
                 "--master-addr=127.0.0.1"
               : "";
}

bool pysh_launcher_is_srun(int n_pes, bool *pmi_p) {
    int of_step = 0;

    *pmi_p = variable("PMIX_RANK") || variable("PMI_RANK");
    return variable("SLURM_STEP_ID") && !variable("OMPI_COMM_WORLD_SIZE") &&
           is_number("SLURM_STEP_NUM_TASKS", &of_step) && of_step == n_pes;
}

pid_t pysh_launcher_agent(void) {
    const launcher_t *launcher = launcher_find();

    if (launcher && (strcmp(launcher->name, "torchrun") == 0 || strcmp(launcher->name, "Open MPI") == 0))
        return getppid();
    return variable("PMIX_NAMESPACE") ? getppid() : 0; /* prterun says no more */
}

/* The name that process `pid` was started by, and its parent; false at the end of the line. */
static bool ancestor_read(long pid, char *name, size_t capacity, long *parent_p) {
    char path[64], line[256];
    const char *rest;
    FILE *file;
    size_t n;

    snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
    if (!(file = fopen(path, "re")))
        return false;
    n = fread(name, 1, capacity - 1, file);
    name[n] = 0; /* the arguments follow its zero byte */
    fclose(file);
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!(file = fopen(path, "re")))
        return false;
    n = fread(line, 1, sizeof line - 1, file);
    line[n] = 0;
    fclose(file);
    rest = strrchr(line, ')'); /* the command's name, which may have anything in it, is in parentheses */
    return rest && sscanf(rest + 1, " %*c %ld", parent_p) == 1;
}

/* Open MPI's oshrun is its mpirun under another name, and gives its children the same environment: the
 * nearest launcher among this process's ancestors tells. */
static bool started_by_oshrun(void) {
    static const char *const names[] = {"oshrun", "shmemrun"};
    static const char *const others[] = {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted"};
    char name[PATH_MAX];
    long pid = (long)getppid();

    while (pid > 1 && ancestor_read(pid, name, sizeof name, &pid)) {
        const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(base, names[i], strlen(names[i])) == 0)
                return true;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (strncmp(base, others[i], strlen(others[i])) == 0)
                return false;
    }
    return false;
}

bool pysh_launcher_is_openshmem(void) {
    ishmemx_config_t config = {.job = ""};
    const char *library, *origin;
    const launcher_t *launcher;
    bool ours = false;

    if (place_from_settings(&config, &ours) || ours)
        return false;
    if (ishmemx_setting("OPENSHMEM_LIBRARY", &library, &origin) == ISHMEMX_OK && *library)
        return true;
    if (!(launcher = launcher_find()))
        return false;
    return launcher_spans_hosts(launcher) || (strcmp(launcher->name, "Open MPI") == 0 && started_by_oshrun());
}

int ishmemx_several_hosts(void) {
    ishmemx_config_t config = {.job = ""};
    const launcher_t *launcher = launcher_find();
    bool ours = false;

    return launcher && !place_from_settings(&config, &ours) && !ours && launcher_spans_hosts(launcher);
}
