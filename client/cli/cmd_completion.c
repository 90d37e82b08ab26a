/* completion: what the shell offers behind `batonctl`, out of the table of commands. */
#include "client/cli/cli.h"
#include <stdio.h>
#include <string.h>

/* The words that come first, each once: a group, or the whole name of a command. */
static void put_first_words(void)
{
    for (size_t i = 0; i < command_count; i++) {
        const char *name = commands[i]->name;
        size_t len = strcspn(name, " ");
        bool told = false;
        for (size_t n = 0; n < i; n++)
            told |= strcspn(commands[n]->name, " ") == len && !memcmp(commands[n]->name, name, len);
        if (!told)
            printf("%s%.*s", i ? " " : "", (int)len, name);
    }
}

static void put_second_words(const char *group, size_t len)
{
    for (size_t i = 0; i < command_count; i++)
        if (!strncmp(commands[i]->name, group, len) && commands[i]->name[len] == ' ')
            printf("%s ", commands[i]->name + len + 1);
}

/* One arm of the shell's case for each group, at its first command. */
static void put_groups(void)
{
    for (size_t i = 0; i < command_count; i++) {
        const char *name = commands[i]->name;
        size_t len = strcspn(name, " ");
        bool first = name[len] && (i == 0 || strncmp(commands[i - 1]->name, name, len + 1) != 0);
        if (!first)
            continue;
        printf("    \"%.*s \" | \"help %.*s \") next=\"", (int)len, name, (int)len, name);
        put_second_words(name, len);
        puts("\" ;;");
    }
}

static void put_options(void)
{
    for (size_t i = 0; i < command_count; i++) {
        if (commands[i]->row_count == 0)
            continue;
        printf("    \"%s \"*) options+=\"", commands[i]->name);
        for (size_t r = 0; r < commands[i]->row_count; r++)
            printf(" --%s", commands[i]->rows[r].name);
        puts("\" ;;");
    }
}

static int run_completion(struct cli *cli, char **words, int count)
{
    if (strcmp(words[0], "bash") != 0) {
        struct err e = err_make(ERR_USAGE, "completion '%s': bash is what there is", words[0]);
        return cli_fail(&e);
    }
    puts("_batonctl() {\n"
         "    local said= skip= next= word options=\"--addr --output --timeout --help\"\n"
         "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "        if [[ $skip ]]; then skip=; continue; fi\n"
         "        case $word in\n"
         "        --addr | --output | -o | --timeout) skip=1 ;;\n"
         "        -*) ;;\n"
         "        *) said+=\"$word \" ;;\n"
         "        esac\n"
         "    done\n"
         "    case $said in");
    printf("    \"\" | \"help \") next=\"");
    put_first_words();
    puts("\" ;;");
    put_groups();
    put_options();
    puts("    esac\n"
         "    COMPREPLY=($(compgen -W \"$next $options\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\n"
         "complete -F _batonctl batonctl");
    return EXIT_OK;
}

const struct command command_completion = {
    .name = "completion",
    .words = "bash",
    .min_words = 1,
    .max_words = 1,
    .about = "Print what makes a shell complete commands and options.",
    .footer = "Use: . <(batonctl completion bash)",
    .run = run_completion};
