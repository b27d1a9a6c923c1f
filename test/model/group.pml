/*
 * One group: its line, its ticket, its stripe, at READ COMMITTED.
 *
 * Each step is one action on the database that no other can cut in two; anything may happen between two steps. What a transaction
 * inserts is seen by nobody before its commit, so rows are written in the step of the commit. What it deletes or locks stops others at
 * once, so that is a step of its own, and so is every snapshot.
 *
 *	- A ticket is a row in a slot: tk_del = who has deleted it in a transaction that is still open, tk_ex = who has locked it
 *	  exclusively, tk_ks = who holds a key-share lock (bits).
 *	- A row of the line is a job's: live = it is there, ldel = who has deleted it in an open transaction.
 *	- A snapshot is a copy: cand = the ticket it shows, sees = the rows of the line. A ticket that is gone turns into GONE in every copy,
 *	  a row that is gone into a bit of gone: rows are deleted by address, and that address has no row any more.
 *	- A commit makes all of a transaction visible in one step. The stripe is let go in a later one.
 *	- jst is what has been committed about a job; ord its place; rank the order of the commits that brought it to the group.
 *
 * Features: BATCH (jobs of a lease), CANCEL, PAUSE, PASS (on_retry), SKIPDEAD (on_dead). Variants, each of which drops one rule: see
 * variants.txt. README.md tells which function each step is.
 */
#ifndef NJ		/* jobs */
#define NJ 2
#endif
#ifndef MAXA	/* attempts */
#define MAXA 2
#endif
#ifndef BATCH	/* jobs of a lease: 1, 2, or 3 for as many as there are */
#define BATCH 1
#endif
#ifndef CR		/* workers that die */
#define CR 1
#endif
#ifndef SP		/* leases that end although their holder lives */
#define SP 1
#endif
#ifndef RL		/* releases */
#define RL 0
#endif
#ifndef DR		/* completions of a lease that is drained */
#define DR 0
#endif
#ifndef RB		/* verbs that are rolled back */
#define RB 1
#endif
#ifndef PR		/* enqueues that are rolled back, before or in pre-commit */
#define PR 1
#endif

#define NT 3
#define NONE 15
#define GONE 14

/* tables */
#define READY 1
#define DELAYED 2
#define LEASE 3
#define PAUSED 4	/* held, reason paused */
#define BLOCKED 5	/* held, reason blocked */

/* processes */
#define P0 1
#define P1 2
#define W0 3
#define W1 4
#define RE 5
#define AD 6
#define CA 7
#define PA 8
#define NP 9

/* jobs: what is committed */
#define NOT_YET 0
#define IN_GROUP 1		/* in line, or in a lease */
#define DONE 2
#define OUT 3			/* dead, passed over or cancelled */
#define DEAD 4			/* the group waits for it */
#define ROLLED_BACK 5
#define PASSED 6		/* waits on its own, to join again */

/* verbs at the end of a turn */
#define COMPLETE 1
#define FAIL 2
#define RELEASE 3
#define DRAINED 4		/* completed, and the rest of the turn is given back */
#define EXPIRE 5

byte tk_tab[NT], tk_del[NT], tk_ex[NT], tk_jobs[NT], tk_from[NT];
bit tk_orphan[NT];		/* its holder has died */
#ifdef KEY_SHARE
byte tk_ks[NT];
#define SHARED(t) (tk_ks[t])
#else
#define SHARED(t) 0
#endif
byte cand[NP], sees[NP], gone[NP];
byte from[NP];			/* where this process looks at the line from: what its ticket says */
bit live[NJ], turn[NJ];	/* turn: it is the running job of a lease, so an attempt may be counted */
byte ldel[NJ], ord[NJ], rank[NJ], att[NJ], jst[NJ];
bit busy;				/* the group's row is there */
byte stripe, seq, nrank;
byte crash = CR, spur = SP, rel = RL, drn = DR, rbk = RB, prb = PR;
#ifdef PAUSE
bit paused;				/* the settings say so */
bit late[NP];			/* this dequeue began while they said so, and they still do */
#define SETTING paused
#else
#define SETTING 0
#endif
#ifdef PASS
bit own[NJ];			/* the job has a ticket of its own, in delayed */
byte odel[NJ];
#endif
#ifdef CANCEL
byte crb = 1;			/* cancels that are rolled back */
#endif
/* Always 0: they give the assertions a name in the checker's output. README.md says what they mean. */
hidden byte S1, S4, S5, S6, S7, S8, S11, S12, L1, FROM, ROW, PLACE, END;

hidden byte gi, gt, gj, gc, gu, gh, gb, grp, gtab, gnew;	/* scratch, within a step */

#if defined(LIVE) && !defined(UNFAIR)
/* who waits for a lock gets it in turn */
chan stripe_queue = [8] of { byte };
#define TAKE_STRIPE(p) stripe_queue!p; atomic { stripe == 0 && stripe_queue?[eval(p)] -> stripe_queue?eval(p); stripe = p }
#else
#define TAKE_STRIPE(p) atomic { stripe == 0 -> stripe = p }
#endif
#define BIT(j) (1 << (j))
#define ENDED(j) (jst[j] == DONE || jst[j] == OUT || jst[j] == ROLLED_BACK)
#if NJ == 2
#define ALL_ENDED (ENDED(0) && ENDED(1))
#elif NJ == 3
#define ALL_ENDED (ENDED(0) && ENDED(1) && ENDED(2))
#else
#define ALL_ENDED (ENDED(0) && ENDED(1) && ENDED(2) && ENDED(3))
#endif
#define HAS(tab) (tk_tab[0] == tab || tk_tab[1] == tab || tk_tab[2] == tab)
#define ANY_TICKET (tk_tab[0] || tk_tab[1] || tk_tab[2])
#define OVER (ALL_ENDED && !ANY_TICKET)
#define FREE(p) (cand[p] < NT && tk_del[cand[p]] == 0 && tk_ex[cand[p]] == 0 && SHARED(cand[p]) == 0)
#define IS_FREE(t, tab) (tk_tab[t] == tab && tk_del[t] == 0 && tk_ex[t] == 0 && SHARED(t) == 0)
#define FREE_IN(tab) (IS_FREE(0, tab) || IS_FREE(1, tab) || IS_FREE(2, tab))
#define ENDS(t) (IS_FREE(t, LEASE) && (tk_orphan[t] || spur > 0))
#define LEASE_ENDS (ENDS(0) || ENDS(1) || ENDS(2))

inline snap_ticket(p, tab)
{
	cand[p] = NONE; gt = 0;
	do
	:: gt < NT -> if :: tk_tab[gt] == tab -> cand[p] = gt :: else fi; gt++
	:: else -> break
	od;
	gt = 0
}

/* the ticket, in whichever table but lease */
inline snap_waiting_ticket(p)
{
	cand[p] = NONE; gt = 0;
	do
	:: gt < NT -> if :: tk_tab[gt] != 0 && tk_tab[gt] != LEASE -> cand[p] = gt :: else fi; gt++
	:: else -> break
	od;
	gt = 0
}

inline snap_line(p)
{
	sees[p] = 0; gone[p] = 0; gj = 0;
	do
	:: gj < NJ -> if :: live[gj] && ldel[gj] != p && ord[gj] >= from[p] -> sees[p] = sees[p] | BIT(gj) :: else fi; gj++
	:: else -> break
	od;
	gj = 0
}

/* gh: the first of a set of jobs, or NONE */
inline first_of(set)
{
	gh = NONE; gj = 0;
	do
	:: gj < NJ ->
		if
		:: (set) & BIT(gj) -> if :: gh == NONE -> gh = gj :: else -> if :: ord[gj] < ord[gh] -> gh = gj :: else fi fi
		:: else
		fi;
		gj++
	:: else -> break
	od;
	gj = 0
}

/* gh: the running job of a lease; gc: how many of its jobs are unfinished */
inline running_of(t)
{
	gb = 0; gc = 0; gi = 0;
	do
	:: gi < NJ -> if :: (tk_jobs[t] & BIT(gi)) && jst[gi] == IN_GROUP -> gb = gb | BIT(gi); gc++ :: else fi; gi++
	:: else -> break
	od;
	first_of(gb);
	gi = 0; gb = 0
}

/* Finds a ticket that nobody has in hand and deletes it, without waiting. Only where FREE_IN(tab). */
inline take_ticket(p, tab)
{
	gt = 0;
	do
	:: gt < NT -> if :: IS_FREE(gt, tab) -> cand[p] = gt :: else fi; gt++
	:: else -> break
	od;
	gt = 0;
	tk_del[cand[p]] = p; from[p] = tk_from[cand[p]]
}

inline draw_ord(j)
{
	seq++; ord[j] = seq
}

inline join(j)
{
	live[j] = 1; nrank++; rank[j] = nrank; jst[j] = IN_GROUP; gnew = gnew | BIT(j)
}

inline forget(j, state)
{
	jst[j] = state; ord[j] = 0; rank[j] = 0; att[j] = 0; turn[j] = 0
}

/* What must be true after every commit. */
inline check()
{
	gc = 0; gb = 0; gh = 0; gu = 0; gt = 0;
	do
	:: gt < NT -> if :: tk_tab[gt] != 0 -> gc++; gh = tk_tab[gt]; gb = tk_jobs[gt]; gu = tk_from[gt] :: else fi; gt++
	:: else -> break
	od;
	gt = 0;
	assert(S1 || gc <= 1);							/* one ticket, so one lease */
	assert(ROW || busy == gc);						/* the group's row is there as long as the ticket */
	grp = gu;
	gu = 0; gj = 0;
	do
	:: gj < NJ ->
		if
		:: jst[gj] == IN_GROUP ->
			gu = 1;
			if
			:: gh == LEASE && (gb & BIT(gj)) -> assert(PLACE || !live[gj])
			:: else -> assert(PLACE || live[gj])	/* a job is in line or in the lease, not lost and not twice */
			fi
		:: else -> assert(PLACE || !live[gj])
		fi;
		if
		:: jst[gj] == DEAD -> gu = 1; assert(S11 || gh == BLOCKED)	/* blocked while the dead job waits */
		:: else
		fi;
#ifdef PASS
		assert(S11 || own[gj] == (jst[gj] == PASSED));	/* one ticket per delayed job */
#endif
		gi = 0;
		do
		:: gi < NJ ->
			assert(S8 || !(jst[gi] == IN_GROUP && jst[gj] == IN_GROUP && rank[gi] < rank[gj] && ord[gi] > ord[gj]));
			gi++
		:: else -> break
		od;
		gj++
	:: else -> break
	od;
	assert(L1 || !(gu == 1 && gc == 0));			/* no lost wake-up */
#ifndef CANCEL
	assert(S11 || !(gu == 0 && gc == 1));			/* no ticket when idle */
#else
	assert(S11 || !(gu == 0 && gh == PAUSED));		/* at least none that nobody looks at */
#endif
#ifdef PAUSE
	assert(L1 || !(gh == PAUSED && !paused));		/* held as paused: only while it is, for nobody looks at it again */
#endif
	gj = 0;
	do
	:: gj < NJ -> assert(FROM || !(live[gj] && ord[gj] < grp)); gj++	/* a search that starts where the ticket says misses nobody */
	:: else -> break
	od;
	grp = 0; gi = 0; gj = 0; gc = 0; gu = 0; gh = 0; gb = 0
}

inline drop_ticket(t)
{
	tk_tab[t] = 0; tk_del[t] = 0; tk_ex[t] = 0; tk_jobs[t] = 0; tk_from[t] = 0; tk_orphan[t] = 0;
#ifdef KEY_SHARE
	tk_ks[t] = 0;
#endif
	gi = 0;
	do
	:: gi < NP -> if :: cand[gi] == t -> cand[gi] = GONE :: else fi; gi++
	:: else -> break
	od;
	gi = 0
}

/* Locks and deletions of a transaction end: made == 1 with its commit, 0 with its rollback. */
inline let_locks_go(p, made)
{
	gj = 0;
	do
	:: gj < NJ ->
		if
		:: ldel[gj] == p ->
			ldel[gj] = 0;
			if
			:: made ->
				live[gj] = 0; gi = 0;
				do
				:: gi < NP -> if :: sees[gi] & BIT(gj) -> gone[gi] = gone[gi] | BIT(gj) :: else fi; gi++
				:: else -> break
				od;
				gi = 0
			:: else
			fi
		:: else
		fi;
#ifdef PASS
		if :: odel[gj] == p -> odel[gj] = 0; if :: made -> own[gj] = 0 :: else fi :: else fi;
#endif
		gj++
	:: else -> break
	od;
	gj = 0; gt = 0;
	do
	:: gt < NT ->
		if :: tk_ex[gt] == p -> tk_ex[gt] = 0 :: else fi;
#ifdef KEY_SHARE
		tk_ks[gt] = tk_ks[gt] & (511 - BIT(p));
#endif
		if
		:: tk_del[gt] == p -> tk_del[gt] = 0; if :: made -> drop_ticket(gt) :: else fi
		:: else
		fi;
		gt++
	:: else -> break
	od;
	gt = 0
}

/* row: 1 the group's row is made, 2 deleted. tab: where a new ticket goes, 0: there is none. */
inline commit(p, row, tab, jobs)
{
	let_locks_go(p, 1);
	if :: (row) == 1 -> busy = 1 :: (row) == 2 -> busy = 0 :: else fi;
	if
	:: (tab) != 0 ->
		gt = 0;
		do :: gt < NT && tk_tab[gt] != 0 -> gt++ :: else -> break od;
		assert(gt < NT);
		tk_tab[gt] = tab; tk_jobs[gt] = jobs;
		/* nobody stands in line before tk_from, as far as this transaction knows: gnew are the jobs that it brought into the line */
		if
		:: (tab) == LEASE ->
			gj = 0;
			do
			:: gj < NJ -> if :: ((jobs) & BIT(gj)) && ord[gj] >= tk_from[gt] -> tk_from[gt] = ord[gj] + 1 :: else fi; gj++
			:: else -> break
			od;
			gj = 0
		:: else ->
			first_of(sees[p] | gnew);
			if :: gh == NONE -> tk_from[gt] = from[p] :: else -> tk_from[gt] = ord[gh] fi;
			gh = 0
		fi;
		gt = 0
	:: else
	fi;
	gnew = 0; sees[p] = 0; gone[p] = 0; from[p] = 0;
	check()
}

inline rollback(p)
{
	let_locks_go(p, 0);
	sees[p] = 0; gone[p] = 0; from[p] = 0;
	if :: stripe == p -> stripe = 0 :: else fi
}

inline let_stripe_go(p)
{
	if :: stripe == p -> stripe = 0 :: else fi
}

/* A lease is a prefix of the unfinished line, of a group that is not paused or blocked. */
inline check_take(w, jobs)
{
	gj = 0;
	do
	:: gj < NJ ->
		if
		:: (jobs) & BIT(gj) ->
			assert(S6 || jst[gj] == IN_GROUP);
			gi = 0;
			do
			:: gi < NJ ->
				assert(S4 || jst[gi] != DEAD);
				assert(S4 || !(jst[gi] == IN_GROUP && !((jobs) & BIT(gi)) && rank[gi] < rank[gj]));
				gi++
			:: else -> break
			od
		:: else
		fi;
		gj++
	:: else -> break
	od;
	gi = 0; gj = 0;
#ifdef PAUSE
	assert(S12 || !late[w]);
#endif
}

/* A job ends only after all before it. */
inline check_first(j)
{
	assert(S6 || jst[j] == IN_GROUP);
	gi = 0;
	do
	:: gi < NJ -> assert(S4 || !((jst[gi] == IN_GROUP || jst[gi] == DEAD) && rank[gi] < rank[j])); gi++
	:: else -> break
	od;
	gi = 0
}

/*
 * The end of a turn, under the stripe, as far as the transaction's snapshot of the line shows: what becomes of its jobs and of the ticket.
 * j: the running job.
 */
inline end_turn(p, j, verb, pausing)
{
	gu = 0; gc = 0; gb = 0;		/* gu: somebody is put back, gc: where the ticket goes, gb: who is put back */
	if
	:: verb == COMPLETE || verb == DRAINED -> check_first(j); forget(j, DONE)
	:: verb == FAIL || verb == EXPIRE ->
		assert(S7 || turn[j]);	/* counted for the running job only */
		att[j]++;
		if
		:: att[j] >= MAXA ->
#ifdef SKIPDEAD
			forget(j, OUT)
#else
			jst[j] = DEAD; gc = BLOCKED
#endif
		:: else ->
#ifdef PASS
			if
			:: verb == FAIL -> jst[j] = PASSED; own[j] = 1; rank[j] = 0
#ifndef PASS_OLD_ORD
				; ord[j] = 0
#endif
			:: else -> jst[j] = PASSED; gb = BIT(j)	/* due at once: it joins again in this very commit */
			fi
#else
			gb = BIT(j);
			if :: verb == FAIL -> gc = DELAYED :: else fi
#endif
		fi
	:: verb == RELEASE -> gb = BIT(j)
	fi;
	turn[j] = 0;
	gi = 0;
	do
	:: gi < NJ ->
		if
		:: (tk_jobs[cand[p]] & BIT(gi)) && jst[gi] == IN_GROUP && gi != j ->
#ifdef EXPIRE_ALL
			if :: verb == EXPIRE -> assert(S7 || turn[gi]); att[gi]++ :: else fi;
#endif
#ifndef PUT_BACK_FIRST
			gb = gb | BIT(gi)
#endif
		:: else
		fi;
		gi++
	:: else -> break
	od;
	gi = 0;
	do
	:: gi < NJ ->
		if
		:: gb & BIT(gi) ->
			gu = 1;
			if
			:: jst[gi] == PASSED -> draw_ord(gi); join(gi)
			:: else ->
				live[gi] = 1;
#ifndef FROM_FORGETS
				gnew = gnew | BIT(gi);
#endif
#ifdef PUT_BACK_NEW_ORD
				draw_ord(gi)
#endif
			fi
		:: else
		fi;
		gi++
	:: else -> break
	od;
	gi = 0;
	if
	:: gc == BLOCKED
	:: else ->
		if
		:: gu == 0 && sees[p] == 0 -> gc = 0
		:: else -> if :: pausing -> gc = PAUSED :: else -> if :: gc == 0 -> gc = READY :: else fi fi
		fi
	fi;
	/* commit() uses the other scratch variables itself */
	grp = (gc == 0 -> 2 : 0); gtab = gc; gu = 0; gc = 0; gb = 0;
	commit(p, grp, gtab, 0);
	grp = 0; gtab = 0
}

/*
 * Somebody left the line, or the setting changed, and the ticket is somebody else's: it follows if nobody has it in hand. One snapshot for
 * the line and all tables that can have the ticket, then a deletion without waiting. setting: as it will be. look: it changed.
 * left: place that became free, 0: none.
 */
inline follow(p, setting, look, left, move)
{
	d_step {
		snap_waiting_ticket(p);
		if :: cand[p] < NT -> from[p] = tk_from[cand[p]] :: else fi;
		snap_line(p)
	};
#ifdef FOLLOW_WAITS
	if
	:: cand[p] == NONE -> skip
	:: cand[p] == GONE -> skip
	:: atomic { FREE(p) -> skip }
	fi;
#endif
	d_step {
		move = 0;
		if
		:: cand[p] >= NT
		:: else ->
			first_of(sees[p]);
			if
			:: tk_tab[cand[p]] == PAUSED ->
#ifndef RESUME_FORGETS
				move = !(gh != NONE && setting)
#endif
			:: tk_tab[cand[p]] == READY -> move = gh == NONE || setting
			:: tk_tab[cand[p]] == DELAYED ->
				move = gh == NONE || setting || look;
				if :: gh != NONE && left > 0 && left < ord[gh] -> move = 1 :: else fi
			:: else ->
#ifdef PAUSE_OVER_BLOCKED
				move = setting
#endif
			fi;
#ifdef CANCEL_ALONE
			if :: !look -> move = 0 :: else fi;
#endif
			gh = 0;
			if :: move && FREE(p) -> tk_del[cand[p]] = p :: else -> move = 0 fi
		fi
	}
}

/* where a ticket that followed goes, and what becomes of the group's row */
#define FOLLOWED(p, setting, move) ((!move || sees[p] == 0) -> 0 : (setting -> PAUSED : READY))
#define FOLLOWED_ROW(p, move) (move && sees[p] == 0 -> 2 : 0)

/* ---------------- producers: one transaction for the jobs first .. last ---------------- */
inline produce(p, first, last)
{
	/* an open transaction may last as long as it likes: nothing is locked */
#ifdef ORD_EARLY
	d_step { k = first; do :: k <= last -> draw_ord(k); k++ :: else -> break od; k = 0 };
#endif
#ifdef BUSY_EARLY
	d_step { b = busy };
#endif
#ifdef KEY_SHARE
	/* assert_lease() of the group's lease in this transaction */
	if
	:: p == P1 ->
		if
		:: atomic { HAS(LEASE) -> snap_ticket(p, LEASE) };
			if
			:: atomic { cand[p] < NT && tk_del[cand[p]] == 0 && tk_ex[cand[p]] == 0 -> tk_ks[cand[p]] = tk_ks[cand[p]] | BIT(p) }
			:: atomic { cand[p] == GONE -> skip }
			fi;
			d_step { cand[p] = NONE }
		:: skip
		fi
	:: else
	fi;
#endif
	if
	:: d_step { prb > 0 -> prb--; k = first; do :: k <= last -> jst[k] = ROLLED_BACK; ord[k] = 0; k++ :: else -> break od; k = 0; rollback(p) }
	:: TAKE_STRIPE(p);
#if defined(BUSY_BY_TABLE)
		b = 0;
		d_step { b = b || HAS(PAUSED) || HAS(BLOCKED) };
		d_step { b = b || HAS(LEASE) };
		d_step { b = b || HAS(DELAYED) };
		d_step { b = b || HAS(READY) };
#elif !defined(BUSY_EARLY)
		d_step { b = busy; z = SETTING };
#endif
#ifdef STRIPE_EARLY
		d_step { k = first; do :: k <= last -> draw_ord(k); k++ :: else -> break od; k = 0; stripe = 0 };
#endif
		if
		:: d_step { prb > 0 -> prb--; k = first; do :: k <= last -> jst[k] = ROLLED_BACK; ord[k] = 0; k++ :: else -> break od; k = 0; rollback(p) }
		:: d_step {
				k = first;
				do
				:: k <= last ->
#if !defined(ORD_EARLY) && !defined(STRIPE_EARLY)
					draw_ord(k);
#endif
					join(k); k++
				:: else -> break
				od;
				k = 0;
				commit(p, (b -> 0 : 1), (b -> 0 : (z -> PAUSED : READY)), 0)
			};
			d_step { let_stripe_go(p) }
		fi
	fi;
	b = 0; z = 0
}

proctype Producer0()
{
	bit b, z;
	byte k;

	produce(P0, 0, 0);
#if NJ >= 3
	produce(P0, 1, 1)
#endif
}

proctype Producer1()
{
	bit b, z;
	byte k;

#if NJ == 2
	produce(P1, 1, 1)
#elif NJ == 3
	produce(P1, 2, 2)
#else
	produce(P1, 2, 3)
#endif
}

/* ---------------- worker ---------------- */
#ifdef PAUSE
#define NOT_LATE(w) ; late[w] = 0
#else
#define NOT_LATE(w)
#endif
#define IDLE(w) cand[w] = NONE; sees[w] = 0; gone[w] = 0; from[w] = 0; taken = 0; j = 0; act = 0; z = 0; more = 0 NOT_LATE(w)
#if BATCH == 1
#define FULL (taken != 0)
#elif BATCH == 2
#define FULL ((taken & (taken - 1)) != 0)
#else
#define FULL 0
#endif

proctype Worker(byte w)
{
	byte taken, j, act;
	bit z, more, got;

top:
	do
	:: atomic { OVER -> goto fin }
#if defined(LINE_BEFORE_TICKET)
	:: d_step { snap_line(w) };
		d_step { snap_ticket(w, READY) };
		if
		:: d_step { FREE(w) -> tk_del[cand[w]] = w; from[w] = tk_from[cand[w]] }
		:: d_step { else -> IDLE(w) };
			goto top
		fi;
#elif defined(LINE_WITH_TICKET)
	:: d_step { HAS(READY) -> snap_line(w); snap_ticket(w, READY) };
		if
		:: d_step { FREE(w) -> tk_del[cand[w]] = w; from[w] = tk_from[cand[w]] }
		:: d_step { else -> IDLE(w) };
			goto top
		fi;
#else
#ifdef PAUSE
	:: d_step { HAS(READY) -> late[w] = paused };
		if
		:: d_step { FREE_IN(READY) -> take_ticket(w, READY) }
		:: d_step { else -> IDLE(w) };
			goto top
		fi;
#else
	:: d_step { FREE_IN(READY) -> take_ticket(w, READY) };
#endif
		d_step { snap_line(w) };
#endif
#if defined(PAUSE) && !defined(TAKE_PAUSED)
		d_step { z = paused };
		if
		:: z && sees[w] != 0 ->
#ifdef TAKER_HOLDS
			d_step { sees[w] = 0; commit(w, 0, PAUSED, 0); IDLE(w) };
#else
			d_step { sees[w] = 0; commit(w, 0, DELAYED, 0); IDLE(w) };
#endif
			goto top
		:: else
		fi;
#endif
#ifdef TAKER_SETTLES
		if :: d_step { sees[w] == 0 -> commit(w, 2, 0, 0); IDLE(w) }; goto top :: else fi;
#endif
		/* deletes rows of the line in their order, without waiting, up to the first that is not to be had */
		do
		:: d_step {
				got = 0;
				first_of(sees[w]);
				if
				:: gh == NONE
				:: gh != NONE && !(gone[w] & BIT(gh)) && live[gh] && ldel[gh] == 0 ->
					ldel[gh] = w; taken = taken | BIT(gh); sees[w] = sees[w] & (255 - BIT(gh)); got = !FULL
				:: else ->
#ifdef TAKER_PASSES_OVER
					sees[w] = sees[w] & (255 - BIT(gh)); got = 1
#endif
				fi;
				gh = 0
			};
			if :: !got -> break :: else fi
#if BATCH > 1
		:: taken != 0 -> break			/* fewer were asked for */
#endif
		od;
		if
		:: d_step { taken == 0 -> sees[w] = 0; commit(w, 0, DELAYED, 0); IDLE(w) }	/* the ticket rests for a moment */
		:: d_step { taken != 0 && crash > 0 -> crash--; rollback(w); IDLE(w) }
		:: d_step { taken != 0 ->
				check_take(w, taken);
				first_of(taken); turn[gh] = 1; gh = 0;
				commit(w, 0, LEASE, taken);
				IDLE(w);
				snap_ticket(w, LEASE)
			};
			break
		fi
	od;

work:
	if
	:: d_step { crash > 0 -> crash--; if :: cand[w] < NT -> tk_orphan[cand[w]] = 1 :: else fi; IDLE(w) };
		goto top
	:: d_step { cand[w] == GONE -> IDLE(w) };			/* JQ001 */
		goto top
	/* the token is looked up and the lease locked, waiting for who has it; then a new snapshot */
#if defined(TOKEN_BEFORE_LOCK)
	:: atomic { cand[w] < NT ->
#elif defined(UPGRADE)
	:: atomic { cand[w] < NT && tk_del[cand[w]] == 0 && tk_ex[cand[w]] == 0 -> tk_ks[cand[w]] = tk_ks[cand[w]] | BIT(w);
#else
	:: atomic { FREE(w) -> tk_ex[cand[w]] = w;
#endif
			d_step { running_of(cand[w]); j = gh; more = gc > 1; gh = 0; gc = 0; from[w] = tk_from[cand[w]] };
#ifdef ANY_ORDER
			if
			:: skip
			:: more -> d_step { first_of(tk_jobs[cand[w]] & (255 - BIT(j))); j = gh; gh = 0 }
			fi;
#endif
			if
			:: act = COMPLETE
			:: act = FAIL
			:: rel > 0 -> rel--; act = RELEASE
			:: drn > 0 && more -> drn--; act = DRAINED
			fi
		}
	fi;
#ifdef LINE_AT_VERB
	d_step { snap_line(w); z = SETTING };
#endif
#ifdef SETTING_AT_VERB
	d_step { z = SETTING };
#endif
	/* the caller's transaction may be long */
	if
	:: d_step { rbk > 0 -> rbk--; rollback(w); act = 0; j = 0; more = 0; z = 0 };
		goto work
	:: d_step { crash > 0 -> crash--; rollback(w); if :: cand[w] < NT -> tk_orphan[cand[w]] = 1 :: else fi; IDLE(w) };
		goto top
	/* no end of the turn: the lease stays, and nothing is owed to the group */
	:: d_step { act == COMPLETE && more ->
			check_first(j); forget(j, DONE);
			running_of(cand[w]); turn[gh] = 1; gh = 0; gc = 0;
			commit(w, 0, 0, 0);
			j = 0; act = 0; more = 0
		};
		goto work
#ifdef LEASE_GOES_ON
	:: d_step { act == FAIL && more && att[j] + 1 < MAXA ->
			att[j]++; live[j] = 1; turn[j] = 0; tk_jobs[cand[w]] = tk_jobs[cand[w]] & (255 - BIT(j)); tk_from[cand[w]] = ord[j];
			running_of(cand[w]); turn[gh] = 1; gh = 0; gc = 0;
			commit(w, 0, 0, 0);
			j = 0; act = 0; more = 0
		};
		goto work
#endif
	:: atomic { !(act == COMPLETE && more) -> skip }
	fi;
#ifndef END_NO_STRIPE
	TAKE_STRIPE(w);
#endif
#ifdef UPGRADE
	atomic { cand[w] < NT && (tk_ks[cand[w]] & (511 - BIT(w))) == 0 && tk_ex[cand[w]] == 0 -> tk_ex[cand[w]] = w };
#endif
#if defined(SETTING_AT_VERB)
	d_step { snap_line(w) };
#elif !defined(LINE_AT_VERB)
	d_step { snap_line(w); z = SETTING };
#endif
#ifdef STRIPE_EARLY
	d_step { stripe = 0 };
#endif
	d_step {
		assert(S5 || (cand[w] < NT && tk_del[cand[w]] == 0));	/* nobody came between the token and the effect */
		tk_del[cand[w]] = w;
		end_turn(w, j, act, z);
		IDLE(w)
	};
	d_step { let_stripe_go(w) };
	goto top;
fin:
	skip
}

/* ---------------- scheduler ---------------- */
proctype Scheduler()
{
	byte j;
	bit b, z;

	do
	:: atomic { OVER -> break }
	/* a group that waited: its ticket is let go */
	:: d_step { FREE_IN(DELAYED) -> take_ticket(RE, DELAYED) };
#ifdef PROMOTE_EARLY
		d_step { snap_line(RE); z = SETTING };
#endif
#ifndef PROMOTE_NO_STRIPE
		TAKE_STRIPE(RE);
#endif
#ifndef PROMOTE_EARLY
		d_step { snap_line(RE); z = SETTING };
#endif
		d_step {
			commit(RE, (sees[RE] == 0 -> 2 : 0), (sees[RE] == 0 -> 0 : (z -> PAUSED : READY)), 0);
			cand[RE] = NONE; z = 0
		};
		d_step { let_stripe_go(RE) }
#ifdef PASS
	/* a job whose backoff is over joins at the end */
	:: atomic {
			if
			:: own[0] && odel[0] == 0 -> j = 0
			:: own[1] && odel[1] == 0 -> j = 1
#if NJ >= 3
			:: own[2] && odel[2] == 0 -> j = 2
#endif
#if NJ >= 4
			:: own[3] && odel[3] == 0 -> j = 3
#endif
			fi;
			odel[j] = RE
		};
#ifndef JOIN_NO_STRIPE
		TAKE_STRIPE(RE);
#endif
		d_step { b = busy; z = SETTING };
		d_step {
#ifndef PASS_OLD_ORD
			draw_ord(j);
#endif
			join(j);
			commit(RE, (b -> 0 : 1), (b -> 0 : (z -> PAUSED : READY)), 0);
			j = 0; b = 0; z = 0
		};
		d_step { let_stripe_go(RE) }
#endif
	/* a lease whose time is over, unless somebody is finishing it: locked without waiting, then a new snapshot */
	:: d_step { LEASE_ENDS ->
			gt = 0;
			do
			:: gt < NT -> if :: ENDS(gt) -> cand[RE] = gt :: else fi; gt++
			:: else -> break
			od;
			gt = 0;
			if :: tk_orphan[cand[RE]] :: else -> spur-- fi;
			tk_del[cand[RE]] = RE;
			running_of(cand[RE]); j = gh; gh = 0; gc = 0; from[RE] = tk_from[cand[RE]]
		};
#ifdef LINE_AT_EXPIRY
		d_step { snap_line(RE); z = SETTING };
#endif
#ifndef EXPIRE_NO_STRIPE
		TAKE_STRIPE(RE);
#endif
#ifndef LINE_AT_EXPIRY
		d_step { snap_line(RE); z = SETTING };
#endif
		d_step {
			end_turn(RE, j, EXPIRE, z);
			cand[RE] = NONE; j = 0; z = 0
		};
		d_step { let_stripe_go(RE) }
	od
}

/* ---------------- unblock_group: retry once, then skip ---------------- */
#ifndef SKIPDEAD
proctype Unblocker()
{
	bit z, retried, retry;

	do
	:: atomic { OVER -> break }
	:: atomic { FREE_IN(BLOCKED) ->
			d_step { take_ticket(AD, BLOCKED) };
			if :: !retried -> retry = 1; retried = 1 :: retry = 0 fi
		};
#ifndef UNBLOCK_NO_STRIPE
		TAKE_STRIPE(AD);
#endif
		d_step { snap_line(AD); z = SETTING };
		d_step {
			gj = 0; gc = 0;
			do
			:: gj < NJ ->
				if
				:: jst[gj] == DEAD ->
					if
					:: retry -> jst[gj] = IN_GROUP; att[gj] = MAXA - 1; live[gj] = 1; gnew = BIT(gj); gc = 1
					:: else -> forget(gj, OUT)
					fi
				:: else
				fi;
				gj++
			:: else -> break
			od;
			gj = 0;
			if :: gc == 0 && sees[AD] == 0 -> grp = 2; gtab = 0 :: else -> grp = 0; gtab = (z -> PAUSED : READY) fi;
			gc = 0;
			commit(AD, grp, gtab, 0);
			grp = 0; gtab = 0; cand[AD] = NONE; retry = 0; z = 0
		};
		d_step { let_stripe_go(AD) }
	od
}
#endif

/* ---------------- cancel of a job ---------------- */
#ifdef CANCEL
proctype Canceller()
{
	byte j, left;
	bit move;

	if
	:: j = 0
	:: j = 1
#if NJ >= 3
	:: j = 2
#endif
	fi;
	if
#ifdef CANCEL_LOOKS
	:: d_step { live[j] -> left = ord[j] }
#else
	/* out of the line, waiting for who has the row in hand */
	:: d_step { live[j] && ldel[j] == 0 -> ldel[j] = CA; left = ord[j] }
#endif
	:: atomic { jst[j] == IN_GROUP && !live[j] -> goto fin }	/* running */
	:: atomic { ENDED(j) || jst[j] == DEAD -> goto fin }
#ifdef PASS
	:: d_step { own[j] && odel[j] == 0 -> odel[j] = CA };
		d_step { forget(j, OUT); commit(CA, 0, 0, 0) };
		goto fin
#endif
	fi;
	if
	:: d_step { crb > 0 -> crb--; rollback(CA) };
		goto fin
	:: skip
	fi;
	TAKE_STRIPE(CA);
	follow(CA, SETTING, 0, left, move);
	d_step {
#ifdef CANCEL_LOOKS
		if :: live[j] -> live[j] = 0; ldel[j] = 0; forget(j, OUT) :: else fi;
#else
		forget(j, OUT);
#endif
		commit(CA, FOLLOWED_ROW(CA, move), FOLLOWED(CA, SETTING, move), 0);
		move = 0; cand[CA] = NONE; left = 0
	};
	d_step { let_stripe_go(CA) };
fin:
	skip
}
#endif

/* ---------------- pause_group, resume_group ---------------- */
#ifdef PAUSE
inline set_paused(v, move)
{
#ifndef PAUSE_NO_STRIPE
	TAKE_STRIPE(PA);
#endif
	follow(PA, v, 1, 0, move);
	d_step {
		paused = v;
		if :: !v -> late[W0] = 0; late[W1] = 0 :: else fi;
		commit(PA, FOLLOWED_ROW(PA, move), FOLLOWED(PA, v, move), 0);
		move = 0; cand[PA] = NONE
	};
	d_step { let_stripe_go(PA) }
}

proctype Pauser()
{
	bit move;

	set_paused(1, move);
	set_paused(0, move)
}
#endif

init
{
	atomic {
		gi = 0;
		do :: gi < NP -> cand[gi] = NONE; gi++ :: else -> break od;
		gi = 0;
		run Producer0(); run Producer1();
		run Worker(W0); run Worker(W1); run Scheduler();
#ifndef SKIPDEAD
		run Unblocker();
#endif
#ifdef CANCEL
		run Canceller();
#endif
#ifdef PAUSE
		run Pauser();
#endif
	}
}

#ifdef LIVE
ltl live { <> OVER }
#endif
