/* What the commands of the tool share. */
#ifndef HEED_EXAMPLES_TOOL_H
#define HEED_EXAMPLES_TOOL_H

#include <heed.h>

/* Exit status: something went wrong, or the command line makes no sense. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* argv[0] is the command's own name. */
int tool_info(int argc, char **argv);
int tool_run(int argc, char **argv);
int tool_demo(int argc, char **argv);

/* One line on standard error, beginning with "heed: "; returns TOOL_FAILED or, for tool_usage, TOOL_USAGE with a hint at --help. */
__attribute__((format(printf, 1, 2))) int tool_fail(const char *format, ...);
__attribute__((format(printf, 1, 2))) int tool_usage(const char *format, ...);

/* Parts of the demo: pictures of what queries may see; a layer on every usable instruction set; the same in 16 bits. */
int tool_demo_patterns(void);
int tool_demo_layer(const struct heed_info *info);
int tool_demo_types(void);

#endif
