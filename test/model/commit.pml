/*
 * What a commit waits for, and in which order. Finisher ends a job that somebody may wait for, and enqueues to a queue that is about to be
 * dropped. Dropper has that queue's lock from the verb on. It may start to wait for a job of Finisher's queue then, and at its own commit
 * it takes the stripe that Finisher wants.
 *
 *	- the lock of a queue is waited for first, when nothing is counted and no stripe is held: who has it may wait for both.
 *
 * Variants: COUNTS_FIRST, STRIPE_FIRST each drop a half of it.
 */
byte queue, stripe, ending;

inline take(lock, me)
{
	atomic { lock == 0 -> lock = me }
}

proctype Finisher()
{
#ifdef COUNTS_FIRST
	ending++;
#endif
#ifdef STRIPE_FIRST
	take(stripe, 1);
#endif
	take(queue, 1);
#ifndef COUNTS_FIRST
	ending++;
#endif
#ifndef STRIPE_FIRST
	take(stripe, 1);
#endif
	d_step { queue = 0; stripe = 0; ending = 0 }
}

proctype Dropper()
{
	take(queue, 2);
	if
	:: true -> ending == 0		/* to start to watch */
	:: skip
	fi;
	take(stripe, 2);
	d_step { queue = 0; stripe = 0 }
}

init
{
	atomic { run Finisher(); run Dropper() }
}
