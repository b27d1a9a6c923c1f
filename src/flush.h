/* flush.h: whether a commit waits for the disk */
#ifndef JOBQ_FLUSH_H
#define JOBQ_FLUSH_H

#include "jobq.h"

extern void flush_verb_begin(bool first);
extern void flush_verb_end(bool may_be_lost);
extern void flush_choose(void);
extern void flush_restore(void);

#endif
