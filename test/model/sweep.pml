/*
 * The scheduler's sweep: it looks at some jobs in each transaction, and is asked to come again when a ticket was in somebody's hands. W is
 * one of the first jobs, and others come after it. Holder has W's ticket in hand and gives it back; Finisher ends what W waits for.
 *
 *	- what is asked for is taken before the first look, and what comes after that leads to another sweep, whichever jobs this one is at;
 *	- a ticket that is busy leads to another sweep, in whichever transaction it was found to be so.
 *
 * Variants: TAKES_LATE, FORGETS each drop one of them; FORGETS_BETWEEN drops the first for what comes between two transactions.
 */
#define LAST 1			/* transactions of a sweep, from 0 */

bit ended;				/* W waits for nothing any more */
bit in_hand = 1, let_go;
bit asked = 1;			/* sweep_at; once after a start */
byte at;				/* which jobs come next */
bit again;				/* the sweep under way does not do */
byte over;
hidden byte LOST;

/* Who deletes the ticket lets W go, and who cannot asks. */
inline commit(notes)
{
	if
	:: (notes) && in_hand -> asked = 1
	:: (notes) && !in_hand -> let_go = 1
	:: else
	fi
}

proctype Holder()
{
	in_hand = 0;
	over++
}

proctype Finisher()
{
	bit busy;

	d_step { if :: in_hand -> busy = 1 :: else -> let_go = 1 fi };
	d_step { ended = 1 };
	d_step { if :: busy -> asked = 1 :: else fi; over++ }
}

proctype Scheduler()
{
	bit notes;

	do
	:: atomic { asked || at > 0 -> skip };
#ifndef TAKES_LATE
		d_step {
#if !defined(FORGETS) && !defined(FORGETS_BETWEEN)
			if :: at > 0 && asked -> again = 1 :: else fi;
#endif
			asked = 0
		};
#endif
		d_step { notes = at == 0 && ended && !let_go };
#ifdef TAKES_LATE
		d_step { if :: at > 0 && asked -> again = 1 :: else fi; asked = 0 };
#endif
		d_step { commit(notes); notes = 0 };
#ifdef FORGETS_BETWEEN
		d_step { if :: asked -> again = 1 :: else fi };
#endif
		d_step {
			if
			:: at < LAST -> at++
			:: else -> at = 0; if :: again -> asked = 1 :: else fi; again = 0
			fi
		}
	:: atomic { over == 2 && !asked && at == 0 -> break }
	od;
	assert(LOST || let_go)
}

init
{
	atomic { run Holder(); run Finisher(); run Scheduler() }
}
