/*
 * The sandbox's first process and every workload of the node tier, in one static program.
 *
 *   pause              runs until it is asked to end
 *   pause exit N       the same, and ends by itself with code 0 after N seconds
 *   pause deaf         is not moved by a polite request
 *   pause fill FILE N  writes N megabytes first, to be evicted for them
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) { (void)signal; _exit(0); }

static void reap(int signal) {
  (void)signal;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

static int fill(const char *path, int megabytes) {
  static char block[1 << 20];
  FILE *file = fopen(path, "w");
  if (file == NULL) return 1;
  memset(block, 'x', sizeof block);
  for (int i = 0; i < megabytes; i++)
    if (fwrite(block, sizeof block, 1, file) != 1) return 1;
  return fclose(file);
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "";
  void (*on_request)(int) = strcmp(what, "deaf") == 0 ? SIG_IGN : end;
  signal(SIGTERM, on_request);
  signal(SIGINT, on_request);
  signal(SIGCHLD, reap);
  if (count > 3 && strcmp(what, "fill") == 0 && fill(words[2], atoi(words[3])) != 0) return 1;
  if (count > 2 && strcmp(what, "exit") == 0) alarm(atoi(words[2])), signal(SIGALRM, end);
  for (;;) pause();
}
