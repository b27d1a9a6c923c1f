#define rand	pan_rand
#define pthread_equal(a,b)	((a)==(b))
#if defined(HAS_CODE) && defined(VERBOSE)
	#ifdef BFS_PAR
		bfs_printf("Pr: %d Tr: %d\n", II, t->forw);
	#else
		cpu_printf("Pr: %d Tr: %d\n", II, t->forw);
	#endif
#endif
	switch (t->forw) {
	default: Uerror("bad forward move");
	case 0:	/* if without executable clauses */
		continue;
	case 1: /* generic 'goto' or 'skip' */
		IfNotBlocked
		_m = 3; goto P999;
	case 2: /* generic 'else' */
		IfNotBlocked
		if (trpt->o_pm&1) continue;
		_m = 3; goto P999;

		 /* PROC Worker */
	case 3: // STATE 1 - group.pml:622 - [((((((jst[0]==2)||(jst[0]==3))||(jst[0]==5))&&(((jst[1]==2)||(jst[1]==3))||(jst[1]==5)))&&!(((tk_tab[0]||tk_tab[1])||tk_tab[2]))))] (97:0:0 - 1)
		IfNotBlocked
		reached[2][1] = 1;
		if (!((((((((int)now.jst[0])==2)||(((int)now.jst[0])==3))||(((int)now.jst[0])==5))&&(((((int)now.jst[1])==2)||(((int)now.jst[1])==3))||(((int)now.jst[1])==5)))&& !(((((int)now.tk_tab[0])||((int)now.tk_tab[1]))||((int)now.tk_tab[2]))))))
			continue;
		/* merge: goto fin(0, 2, 97) */
		reached[2][2] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 4: // STATE 4 - group.pml:623 - [((((tk_tab[0]==1)||(tk_tab[1]==1))||(tk_tab[2]==1)))] (0:0:0 - 1)
		IfNotBlocked
		reached[2][4] = 1;
		if (!((((((int)now.tk_tab[0])==1)||(((int)now.tk_tab[1])==1))||(((int)now.tk_tab[2])==1))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 5: // STATE 23 - group.pml:633 - [D_STEP633]
		IfNotBlocked

		reached[2][23] = 1;
		reached[2][t->st] = 1;
		reached[2][tt] = 1;

		if (TstOnly) return 1;


		reached[2][23] = 1;
		reached[2][t->st] = 1;
		reached[2][tt] = 1;

		sv_save();
		S_821_0: /* 2 */
S_806_0: /* 2 */
		now.cand[ Index(((P2 *)_this)->w, 9) ] = 15;
#ifdef VAR_RANGES
		logval("cand[Worker:w]", ((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
S_807_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_818_0: /* 2 */
S_817_0: /* 2 */
S_808_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_817_1;
S_812_0: /* 2 */
S_809_0: /* 2 */
		if (!((((int)now.tk_tab[ Index(((int)now.gt), 3) ])==1)))
			goto S_812_1;
S_810_0: /* 2 */
		now.cand[ Index(((P2 *)_this)->w, 9) ] = ((int)now.gt);
#ifdef VAR_RANGES
		logval("cand[Worker:w]", ((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
		goto S_813_0;
S_812_1: /* 3 */
S_811_0: /* 2 */
		/* else */;
		goto S_813_0;
S_812_2: /* 3 */
		Uerror("blocking sel in d_step (nr.0, near line 135)");
S_813_0: /* 2 */
S_814_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_818_0; /* ';' */
S_817_1: /* 3 */
S_815_0: /* 2 */
		/* else */;
S_816_0: /* 2 */
		goto S_819_0;	/* 'goto' */
S_817_2: /* 3 */
		Uerror("blocking sel in d_step (nr.1, near line 134)");
S_819_0: /* 2 */
		goto S_820_0;	/* 'break' */
S_820_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_836_0;
S_836_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 6: // STATE 26 - group.pml:636 - [D_STEP636]
		if (!(boq == -1 && ((((((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ])<3)&&(((int)now.tk_del[ Index(((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ]), 3) ])==0))&&(((int)now.tk_ex[ Index(((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ]), 3) ])==0))&&(0==0))))
			continue;

		reached[2][26] = 1;
		reached[2][t->st] = 1;
		reached[2][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_823_0: /* 2 */
		if (!(((((((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ])<3)&&(((int)now.tk_del[ Index(((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ]), 3) ])==0))&&(((int)now.tk_ex[ Index(((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ]), 3) ])==0))&&(0==0))))
			Uerror("block in d_step seq");
S_824_0: /* 2 */
		now.tk_del[ Index(now.cand[ Index(((P2 *)_this)->w, 9) ], 3) ] = ((int)((P2 *)_this)->w);
#ifdef VAR_RANGES
		logval("tk_del[cand[Worker:w]]", ((int)now.tk_del[ Index(((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ]), 3) ]));
#endif
		;
		goto S_837_0;
S_837_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 7: // STATE 35 - group.pml:637 - [D_STEP637]
		if (boq != -1 || (trpt->o_pm&1))
			continue;

		reached[2][35] = 1;
		reached[2][t->st] = 1;
		reached[2][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_826_0: /* 2 */
		/* else */;
S_827_0: /* 2 */
		now.cand[ Index(((P2 *)_this)->w, 9) ] = 15;
#ifdef VAR_RANGES
		logval("cand[Worker:w]", ((int)now.cand[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
S_828_0: /* 2 */
		now.sees[ Index(((P2 *)_this)->w, 9) ] = 0;
#ifdef VAR_RANGES
		logval("sees[Worker:w]", ((int)now.sees[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
S_829_0: /* 2 */
		now.gone[ Index(((P2 *)_this)->w, 9) ] = 0;
#ifdef VAR_RANGES
		logval("gone[Worker:w]", ((int)now.gone[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
S_830_0: /* 2 */
		((P2 *)_this)->taken = 0;
#ifdef VAR_RANGES
		logval("Worker:taken", ((int)((P2 *)_this)->taken));
#endif
		;
S_831_0: /* 2 */
		((P2 *)_this)->j = 0;
#ifdef VAR_RANGES
		logval("Worker:j", ((int)((P2 *)_this)->j));
#endif
		;
S_832_0: /* 2 */
		((P2 *)_this)->act = 0;
#ifdef VAR_RANGES
		logval("Worker:act", ((int)((P2 *)_this)->act));
#endif
		;
S_833_0: /* 2 */
		((P2 *)_this)->z = 0;
#ifdef VAR_RANGES
		logval("Worker:z", ((int)((P2 *)_this)->z));
#endif
		;
		goto S_835_0;
S_835_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 8: // STATE 56 - group.pml:641 - [D_STEP641]
		IfNotBlocked

		reached[2][56] = 1;
		reached[2][t->st] = 1;
		reached[2][tt] = 1;

		if (TstOnly) return 1;


		reached[2][56] = 1;
		reached[2][t->st] = 1;
		reached[2][tt] = 1;

		sv_save();
		S_854_0: /* 2 */
S_838_0: /* 2 */
		now.sees[ Index(((P2 *)_this)->w, 9) ] = 0;
#ifdef VAR_RANGES
		logval("sees[Worker:w]", ((int)now.sees[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
S_839_0: /* 2 */
		now.gone[ Index(((P2 *)_this)->w, 9) ] = 0;
#ifdef VAR_RANGES
		logval("gone[Worker:w]", ((int)now.gone[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
S_840_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_851_0: /* 2 */
S_850_0: /* 2 */
S_841_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_850_1;
S_845_0: /* 2 */
S_842_0: /* 2 */
		if (!((((int)now.live[ Index(((int)now.gj), 2) ])&&(((int)now.ldel[ Index(((int)now.gj), 2) ])!=((int)((P2 *)_this)->w)))))
			goto S_845_1;
S_843_0: /* 2 */
		now.sees[ Index(((P2 *)_this)->w, 9) ] = (((int)now.sees[ Index(((int)((P2 *)_this)->w), 9) ])|(1<<((int)now.gj)));
#ifdef VAR_RANGES
		logval("sees[Worker:w]", ((int)now.sees[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
		goto S_846_0;
S_845_1: /* 3 */
S_844_0: /* 2 */
		/* else */;
		goto S_846_0;
S_845_2: /* 3 */
		Uerror("blocking sel in d_step (nr.2, near line 156)");
S_846_0: /* 2 */
S_847_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_851_0; /* ';' */
S_850_1: /* 3 */
S_848_0: /* 2 */
		/* else */;
S_849_0: /* 2 */
		goto S_852_0;	/* 'goto' */
S_850_2: /* 3 */
		Uerror("blocking sel in d_step (nr.3, near line 155)");
S_852_0: /* 2 */
		goto S_853_0;	/* 'break' */
S_853_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_890_0;
S_890_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 9: // STATE 87 - group.pml:658 - [D_STEP658]
		IfNotBlocked

		reached[2][87] = 1;
		reached[2][t->st] = 1;
		reached[2][tt] = 1;

		if (TstOnly) return 1;


		reached[2][87] = 1;
		reached[2][t->st] = 1;
		reached[2][tt] = 1;

		sv_save();
		S_880_0: /* 2 */
S_856_0: /* 2 */
		now.gh = 15;
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
S_857_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_877_0: /* 2 */
S_876_0: /* 2 */
S_858_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_876_1;
S_871_0: /* 2 */
S_859_0: /* 2 */
		if (!((((int)now.sees[ Index(((int)((P2 *)_this)->w), 9) ])&(1<<((int)now.gj)))))
			goto S_871_1;
S_868_0: /* 2 */
S_860_0: /* 2 */
		if (!((((int)now.gh)==15)))
			goto S_868_1;
S_861_0: /* 2 */
		now.gh = ((int)now.gj);
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
		goto S_869_0;
S_868_1: /* 3 */
S_862_0: /* 2 */
		/* else */;
S_866_0: /* 2 */
S_863_0: /* 2 */
		if (!((((int)now.ord[ Index(((int)now.gj), 2) ])<((int)now.ord[ Index(((int)now.gh), 2) ]))))
			goto S_866_1;
S_864_0: /* 2 */
		now.gh = ((int)now.gj);
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
		goto S_867_0;
S_866_1: /* 3 */
S_865_0: /* 2 */
		/* else */;
		goto S_867_0;
S_866_2: /* 3 */
		Uerror("blocking sel in d_step (nr.4, near line 169)");
S_867_0: /* 2 */
		goto S_869_0;
S_868_2: /* 3 */
		Uerror("blocking sel in d_step (nr.5, near line 169)");
S_869_0: /* 2 */
		goto S_872_0;
S_871_1: /* 3 */
S_870_0: /* 2 */
		/* else */;
		goto S_872_0;
S_871_2: /* 3 */
		Uerror("blocking sel in d_step (nr.6, near line 168)");
S_872_0: /* 2 */
S_873_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_877_0; /* ';' */
S_876_1: /* 3 */
S_874_0: /* 2 */
		/* else */;
S_875_0: /* 2 */
		goto S_879_0;	/* 'goto' */
S_876_2: /* 3 */
		Uerror("blocking sel in d_step (nr.7, near line 166)");
S_878_0: /* 2 */
		goto S_879_0;	/* 'break' */
S_879_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_881_0;
S_881_0: /* 2 */
		if (!(((((((int)now.gh)!=15)&& !((((int)now.gone[ Index(((int)((P2 *)_this)->w), 9) ])&(1<<((int)now.gh)))))&&((int)now.live[ Index(((int)now.gh), 2) ]))&&(((int)now.ldel[ Index(((int)now.gh), 2) ])==0))))
			Uerror("block in d_step seq");
S_882_0: /* 2 */
		now.ldel[ Index(now.gh, 2) ] = ((int)((P2 *)_this)->w);
#ifdef VAR_RANGES
		logval("ldel[gh]", ((int)now.ldel[ Index(((int)now.gh), 2) ]));
#endif
		;
S_883_0: /* 2 */
		((P2 *)_this)->taken = (((int)((P2 *)_this)->taken)|(1<<((int)now.gh)));
#ifdef VAR_RANGES
		logval("Worker:taken", ((int)((P2 *)_this)->taken));
#endif
		;
S_884_0: /* 2 */
		now.sees[ Index(((P2 *)_this)->w, 9) ] = (((int)now.sees[ Index(((int)((P2 *)_this)->w), 9) ])&(255-(1<<((int)now.gh))));
#ifdef VAR_RANGES
		logval("sees[Worker:w]", ((int)now.sees[ Index(((int)((P2 *)_this)->w), 9) ]));
#endif
		;
S_885_0: /* 2 */
		now.gh = 0;
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
		goto S_890_0; /* ';' */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 10: // STATE 98 - group.pml:669 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[2][98] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC Producer1 */
	case 11: // STATE 97 - group.pml:526 - [D_STEP526]
		if (!(boq == -1 && (((int)now.prb)>0)))
			continue;

		reached[1][97] = 1;
		reached[1][t->st] = 1;
		reached[1][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_400_0: /* 2 */
		if (!((((int)now.prb)>0)))
			Uerror("block in d_step seq");
S_401_0: /* 2 */
		now.prb = (((int)now.prb)-1);
#ifdef VAR_RANGES
		logval("prb", ((int)now.prb));
#endif
		;
S_402_0: /* 2 */
		((P1 *)_this)->k = 1;
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
S_410_0: /* 2 */
S_409_0: /* 2 */
S_403_0: /* 2 */
		if (!((((int)((P1 *)_this)->k)<=1)))
			goto S_409_1;
S_404_0: /* 2 */
		now.jst[ Index(((P1 *)_this)->k, 2) ] = 5;
#ifdef VAR_RANGES
		logval("jst[Producer1:k]", ((int)now.jst[ Index(((int)((P1 *)_this)->k), 2) ]));
#endif
		;
S_405_0: /* 2 */
		now.ord[ Index(((P1 *)_this)->k, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ord[Producer1:k]", ((int)now.ord[ Index(((int)((P1 *)_this)->k), 2) ]));
#endif
		;
S_406_0: /* 2 */
		((P1 *)_this)->k = (((int)((P1 *)_this)->k)+1);
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
		goto S_410_0; /* ';' */
S_409_1: /* 3 */
S_407_0: /* 2 */
		/* else */;
S_408_0: /* 2 */
		goto S_412_0;	/* 'goto' */
S_409_2: /* 3 */
		Uerror("blocking sel in d_step (nr.8, near line 526)");
S_411_0: /* 2 */
		goto S_412_0;	/* 'break' */
S_412_0: /* 2 */
		((P1 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
S_495_0: /* 2 */
S_489_0: /* 2 */
S_413_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_443_0: /* 2 */
S_442_0: /* 2 */
S_414_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_442_1;
S_437_0: /* 2 */
S_415_0: /* 2 */
		if (!((((int)now.ldel[ Index(((int)now.gj), 2) ])==2)))
			goto S_437_1;
S_416_0: /* 2 */
		now.ldel[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ldel[gj]", ((int)now.ldel[ Index(((int)now.gj), 2) ]));
#endif
		;
S_434_0: /* 2 */
S_417_0: /* 2 */
		if (!(0))
			goto S_434_1;
S_418_0: /* 2 */
		now.live[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("live[gj]", ((int)now.live[ Index(((int)now.gj), 2) ]));
#endif
		;
S_419_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_430_0: /* 2 */
S_429_0: /* 2 */
S_420_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_429_1;
S_424_0: /* 2 */
S_421_0: /* 2 */
		if (!((((int)now.sees[ Index(((int)now.gi), 9) ])&(1<<((int)now.gj)))))
			goto S_424_1;
S_422_0: /* 2 */
		now.gone[ Index(now.gi, 9) ] = (((int)now.gone[ Index(((int)now.gi), 9) ])|(1<<((int)now.gj)));
#ifdef VAR_RANGES
		logval("gone[gi]", ((int)now.gone[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_425_0;
S_424_1: /* 3 */
S_423_0: /* 2 */
		/* else */;
		goto S_425_0;
S_424_2: /* 3 */
		Uerror("blocking sel in d_step (nr.9, near line 284)");
S_425_0: /* 2 */
S_426_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_430_0; /* ';' */
S_429_1: /* 3 */
S_427_0: /* 2 */
		/* else */;
S_428_0: /* 2 */
		goto S_432_0;	/* 'goto' */
S_429_2: /* 3 */
		Uerror("blocking sel in d_step (nr.10, near line 283)");
S_431_0: /* 2 */
		goto S_432_0;	/* 'break' */
S_432_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_435_0;
S_434_1: /* 3 */
S_433_0: /* 2 */
		/* else */;
		goto S_435_0;
S_434_2: /* 3 */
		Uerror("blocking sel in d_step (nr.11, near line 280)");
S_435_0: /* 2 */
		goto S_438_0;
S_437_1: /* 3 */
S_436_0: /* 2 */
		/* else */;
		goto S_438_0;
S_437_2: /* 3 */
		Uerror("blocking sel in d_step (nr.12, near line 277)");
S_438_0: /* 2 */
S_439_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_443_0; /* ';' */
S_442_1: /* 3 */
S_440_0: /* 2 */
		/* else */;
S_441_0: /* 2 */
		goto S_445_0;	/* 'goto' */
S_442_2: /* 3 */
		Uerror("blocking sel in d_step (nr.13, near line 275)");
S_444_0: /* 2 */
		goto S_445_0;	/* 'break' */
S_445_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_446_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_486_0: /* 2 */
S_485_0: /* 2 */
S_447_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_485_1;
S_451_0: /* 2 */
S_448_0: /* 2 */
		if (!((((int)now.tk_ex[ Index(((int)now.gt), 3) ])==2)))
			goto S_451_1;
S_449_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
		goto S_452_0;
S_451_1: /* 3 */
S_450_0: /* 2 */
		/* else */;
		goto S_452_0;
S_451_2: /* 3 */
		Uerror("blocking sel in d_step (nr.14, near line 301)");
S_452_0: /* 2 */
S_480_0: /* 2 */
S_453_0: /* 2 */
		if (!((((int)now.tk_del[ Index(((int)now.gt), 3) ])==2)))
			goto S_480_1;
S_454_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_477_0: /* 2 */
S_455_0: /* 2 */
		if (!(0))
			goto S_477_1;
S_475_0: /* 2 */
S_456_0: /* 2 */
		now.tk_tab[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_tab[gt]", ((int)now.tk_tab[ Index(((int)now.gt), 3) ]));
#endif
		;
S_457_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_458_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
S_459_0: /* 2 */
		now.tk_jobs[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_jobs[gt]", ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]));
#endif
		;
S_460_0: /* 2 */
		tk_orphan[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_orphan[gt]", ((int)tk_orphan[ Index(((int)now.gt), 3) ]));
#endif
		;
S_461_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_472_0: /* 2 */
S_471_0: /* 2 */
S_462_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_471_1;
S_466_0: /* 2 */
S_463_0: /* 2 */
		if (!((((int)now.cand[ Index(((int)now.gi), 9) ])==((int)now.gt))))
			goto S_466_1;
S_464_0: /* 2 */
		now.cand[ Index(now.gi, 9) ] = 14;
#ifdef VAR_RANGES
		logval("cand[gi]", ((int)now.cand[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_467_0;
S_466_1: /* 3 */
S_465_0: /* 2 */
		/* else */;
		goto S_467_0;
S_466_2: /* 3 */
		Uerror("blocking sel in d_step (nr.15, near line 265)");
S_467_0: /* 2 */
S_468_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_472_0; /* ';' */
S_471_1: /* 3 */
S_469_0: /* 2 */
		/* else */;
S_470_0: /* 2 */
		goto S_474_0;	/* 'goto' */
S_471_2: /* 3 */
		Uerror("blocking sel in d_step (nr.16, near line 264)");
S_473_0: /* 2 */
		goto S_474_0;	/* 'break' */
S_474_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_478_0;
S_477_1: /* 3 */
S_476_0: /* 2 */
		/* else */;
		goto S_478_0;
S_477_2: /* 3 */
		Uerror("blocking sel in d_step (nr.17, near line 306)");
S_478_0: /* 2 */
		goto S_481_0;
S_480_1: /* 3 */
S_479_0: /* 2 */
		/* else */;
		goto S_481_0;
S_480_2: /* 3 */
		Uerror("blocking sel in d_step (nr.18, near line 305)");
S_481_0: /* 2 */
S_482_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_486_0; /* ';' */
S_485_1: /* 3 */
S_483_0: /* 2 */
		/* else */;
S_484_0: /* 2 */
		goto S_488_0;	/* 'goto' */
S_485_2: /* 3 */
		Uerror("blocking sel in d_step (nr.19, near line 299)");
S_487_0: /* 2 */
		goto S_488_0;	/* 'break' */
S_488_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_493_0;
S_493_0: /* 2 */
S_490_0: /* 2 */
		if (!((((int)now.stripe)==2)))
			goto S_493_1;
S_491_0: /* 2 */
		now.stripe = 0;
#ifdef VAR_RANGES
		logval("stripe", ((int)now.stripe));
#endif
		;
		goto S_494_0;
S_493_1: /* 3 */
S_492_0: /* 2 */
		/* else */;
		goto S_494_0;
S_493_2: /* 3 */
		Uerror("blocking sel in d_step (nr.20, near line 334)");
S_494_0: /* 2 */
		goto S_795_0;
S_795_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 12: // STATE 98 - group.pml:527 - [((stripe==0))] (103:0:1 - 1)
		IfNotBlocked
		reached[1][98] = 1;
		if (!((((int)now.stripe)==0)))
			continue;
		/* merge: stripe = 2(0, 99, 103) */
		reached[1][99] = 1;
		(trpt+1)->bup.oval = ((int)now.stripe);
		now.stripe = 2;
#ifdef VAR_RANGES
		logval("stripe", ((int)now.stripe));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 13: // STATE 103 - group.pml:535 - [D_STEP535]
		IfNotBlocked

		reached[1][103] = 1;
		reached[1][t->st] = 1;
		reached[1][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_500_0: /* 2 */
		((P1 *)_this)->b = ((int)now.busy);
#ifdef VAR_RANGES
		logval("Producer1:b", ((int)((P1 *)_this)->b));
#endif
		;
S_501_0: /* 2 */
		((P1 *)_this)->z = 0;
#ifdef VAR_RANGES
		logval("Producer1:z", ((int)((P1 *)_this)->z));
#endif
		;
		goto S_792_0;
S_792_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 14: // STATE 200 - group.pml:541 - [D_STEP541]
		if (!(boq == -1 && (((int)now.prb)>0)))
			continue;

		reached[1][200] = 1;
		reached[1][t->st] = 1;
		reached[1][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_503_0: /* 2 */
		if (!((((int)now.prb)>0)))
			Uerror("block in d_step seq");
S_504_0: /* 2 */
		now.prb = (((int)now.prb)-1);
#ifdef VAR_RANGES
		logval("prb", ((int)now.prb));
#endif
		;
S_505_0: /* 2 */
		((P1 *)_this)->k = 1;
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
S_513_0: /* 2 */
S_512_0: /* 2 */
S_506_0: /* 2 */
		if (!((((int)((P1 *)_this)->k)<=1)))
			goto S_512_1;
S_507_0: /* 2 */
		now.jst[ Index(((P1 *)_this)->k, 2) ] = 5;
#ifdef VAR_RANGES
		logval("jst[Producer1:k]", ((int)now.jst[ Index(((int)((P1 *)_this)->k), 2) ]));
#endif
		;
S_508_0: /* 2 */
		now.ord[ Index(((P1 *)_this)->k, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ord[Producer1:k]", ((int)now.ord[ Index(((int)((P1 *)_this)->k), 2) ]));
#endif
		;
S_509_0: /* 2 */
		((P1 *)_this)->k = (((int)((P1 *)_this)->k)+1);
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
		goto S_513_0; /* ';' */
S_512_1: /* 3 */
S_510_0: /* 2 */
		/* else */;
S_511_0: /* 2 */
		goto S_515_0;	/* 'goto' */
S_512_2: /* 3 */
		Uerror("blocking sel in d_step (nr.21, near line 541)");
S_514_0: /* 2 */
		goto S_515_0;	/* 'break' */
S_515_0: /* 2 */
		((P1 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
S_598_0: /* 2 */
S_592_0: /* 2 */
S_516_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_546_0: /* 2 */
S_545_0: /* 2 */
S_517_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_545_1;
S_540_0: /* 2 */
S_518_0: /* 2 */
		if (!((((int)now.ldel[ Index(((int)now.gj), 2) ])==2)))
			goto S_540_1;
S_519_0: /* 2 */
		now.ldel[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ldel[gj]", ((int)now.ldel[ Index(((int)now.gj), 2) ]));
#endif
		;
S_537_0: /* 2 */
S_520_0: /* 2 */
		if (!(0))
			goto S_537_1;
S_521_0: /* 2 */
		now.live[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("live[gj]", ((int)now.live[ Index(((int)now.gj), 2) ]));
#endif
		;
S_522_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_533_0: /* 2 */
S_532_0: /* 2 */
S_523_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_532_1;
S_527_0: /* 2 */
S_524_0: /* 2 */
		if (!((((int)now.sees[ Index(((int)now.gi), 9) ])&(1<<((int)now.gj)))))
			goto S_527_1;
S_525_0: /* 2 */
		now.gone[ Index(now.gi, 9) ] = (((int)now.gone[ Index(((int)now.gi), 9) ])|(1<<((int)now.gj)));
#ifdef VAR_RANGES
		logval("gone[gi]", ((int)now.gone[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_528_0;
S_527_1: /* 3 */
S_526_0: /* 2 */
		/* else */;
		goto S_528_0;
S_527_2: /* 3 */
		Uerror("blocking sel in d_step (nr.22, near line 284)");
S_528_0: /* 2 */
S_529_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_533_0; /* ';' */
S_532_1: /* 3 */
S_530_0: /* 2 */
		/* else */;
S_531_0: /* 2 */
		goto S_535_0;	/* 'goto' */
S_532_2: /* 3 */
		Uerror("blocking sel in d_step (nr.23, near line 283)");
S_534_0: /* 2 */
		goto S_535_0;	/* 'break' */
S_535_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_538_0;
S_537_1: /* 3 */
S_536_0: /* 2 */
		/* else */;
		goto S_538_0;
S_537_2: /* 3 */
		Uerror("blocking sel in d_step (nr.24, near line 280)");
S_538_0: /* 2 */
		goto S_541_0;
S_540_1: /* 3 */
S_539_0: /* 2 */
		/* else */;
		goto S_541_0;
S_540_2: /* 3 */
		Uerror("blocking sel in d_step (nr.25, near line 277)");
S_541_0: /* 2 */
S_542_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_546_0; /* ';' */
S_545_1: /* 3 */
S_543_0: /* 2 */
		/* else */;
S_544_0: /* 2 */
		goto S_548_0;	/* 'goto' */
S_545_2: /* 3 */
		Uerror("blocking sel in d_step (nr.26, near line 275)");
S_547_0: /* 2 */
		goto S_548_0;	/* 'break' */
S_548_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_549_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_589_0: /* 2 */
S_588_0: /* 2 */
S_550_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_588_1;
S_554_0: /* 2 */
S_551_0: /* 2 */
		if (!((((int)now.tk_ex[ Index(((int)now.gt), 3) ])==2)))
			goto S_554_1;
S_552_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
		goto S_555_0;
S_554_1: /* 3 */
S_553_0: /* 2 */
		/* else */;
		goto S_555_0;
S_554_2: /* 3 */
		Uerror("blocking sel in d_step (nr.27, near line 301)");
S_555_0: /* 2 */
S_583_0: /* 2 */
S_556_0: /* 2 */
		if (!((((int)now.tk_del[ Index(((int)now.gt), 3) ])==2)))
			goto S_583_1;
S_557_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_580_0: /* 2 */
S_558_0: /* 2 */
		if (!(0))
			goto S_580_1;
S_578_0: /* 2 */
S_559_0: /* 2 */
		now.tk_tab[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_tab[gt]", ((int)now.tk_tab[ Index(((int)now.gt), 3) ]));
#endif
		;
S_560_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_561_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
S_562_0: /* 2 */
		now.tk_jobs[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_jobs[gt]", ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]));
#endif
		;
S_563_0: /* 2 */
		tk_orphan[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_orphan[gt]", ((int)tk_orphan[ Index(((int)now.gt), 3) ]));
#endif
		;
S_564_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_575_0: /* 2 */
S_574_0: /* 2 */
S_565_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_574_1;
S_569_0: /* 2 */
S_566_0: /* 2 */
		if (!((((int)now.cand[ Index(((int)now.gi), 9) ])==((int)now.gt))))
			goto S_569_1;
S_567_0: /* 2 */
		now.cand[ Index(now.gi, 9) ] = 14;
#ifdef VAR_RANGES
		logval("cand[gi]", ((int)now.cand[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_570_0;
S_569_1: /* 3 */
S_568_0: /* 2 */
		/* else */;
		goto S_570_0;
S_569_2: /* 3 */
		Uerror("blocking sel in d_step (nr.28, near line 265)");
S_570_0: /* 2 */
S_571_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_575_0; /* ';' */
S_574_1: /* 3 */
S_572_0: /* 2 */
		/* else */;
S_573_0: /* 2 */
		goto S_577_0;	/* 'goto' */
S_574_2: /* 3 */
		Uerror("blocking sel in d_step (nr.29, near line 264)");
S_576_0: /* 2 */
		goto S_577_0;	/* 'break' */
S_577_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_581_0;
S_580_1: /* 3 */
S_579_0: /* 2 */
		/* else */;
		goto S_581_0;
S_580_2: /* 3 */
		Uerror("blocking sel in d_step (nr.30, near line 306)");
S_581_0: /* 2 */
		goto S_584_0;
S_583_1: /* 3 */
S_582_0: /* 2 */
		/* else */;
		goto S_584_0;
S_583_2: /* 3 */
		Uerror("blocking sel in d_step (nr.31, near line 305)");
S_584_0: /* 2 */
S_585_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_589_0; /* ';' */
S_588_1: /* 3 */
S_586_0: /* 2 */
		/* else */;
S_587_0: /* 2 */
		goto S_591_0;	/* 'goto' */
S_588_2: /* 3 */
		Uerror("blocking sel in d_step (nr.32, near line 299)");
S_590_0: /* 2 */
		goto S_591_0;	/* 'break' */
S_591_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_596_0;
S_596_0: /* 2 */
S_593_0: /* 2 */
		if (!((((int)now.stripe)==2)))
			goto S_596_1;
S_594_0: /* 2 */
		now.stripe = 0;
#ifdef VAR_RANGES
		logval("stripe", ((int)now.stripe));
#endif
		;
		goto S_597_0;
S_596_1: /* 3 */
S_595_0: /* 2 */
		/* else */;
		goto S_597_0;
S_596_2: /* 3 */
		Uerror("blocking sel in d_step (nr.33, near line 334)");
S_597_0: /* 2 */
		goto S_793_0;
S_793_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 15: // STATE 385 - group.pml:542 - [D_STEP542]
		IfNotBlocked

		reached[1][385] = 1;
		reached[1][t->st] = 1;
		reached[1][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_600_0: /* 2 */
		((P1 *)_this)->k = 1;
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
S_614_0: /* 2 */
S_613_0: /* 2 */
S_601_0: /* 2 */
		if (!((((int)((P1 *)_this)->k)<=1)))
			goto S_613_1;
S_604_0: /* 2 */
S_602_0: /* 2 */
		now.seq = (((int)now.seq)+1);
#ifdef VAR_RANGES
		logval("seq", ((int)now.seq));
#endif
		;
S_603_0: /* 2 */
		now.ord[ Index(((P1 *)_this)->k, 2) ] = ((int)now.seq);
#ifdef VAR_RANGES
		logval("ord[Producer1:k]", ((int)now.ord[ Index(((int)((P1 *)_this)->k), 2) ]));
#endif
		;
		goto S_609_0;
S_609_0: /* 2 */
S_605_0: /* 2 */
		now.live[ Index(((P1 *)_this)->k, 2) ] = 1;
#ifdef VAR_RANGES
		logval("live[Producer1:k]", ((int)now.live[ Index(((int)((P1 *)_this)->k), 2) ]));
#endif
		;
S_606_0: /* 2 */
		now.nrank = (((int)now.nrank)+1);
#ifdef VAR_RANGES
		logval("nrank", ((int)now.nrank));
#endif
		;
S_607_0: /* 2 */
		now.rank[ Index(((P1 *)_this)->k, 2) ] = ((int)now.nrank);
#ifdef VAR_RANGES
		logval("rank[Producer1:k]", ((int)now.rank[ Index(((int)((P1 *)_this)->k), 2) ]));
#endif
		;
S_608_0: /* 2 */
		now.jst[ Index(((P1 *)_this)->k, 2) ] = 1;
#ifdef VAR_RANGES
		logval("jst[Producer1:k]", ((int)now.jst[ Index(((int)((P1 *)_this)->k), 2) ]));
#endif
		;
		goto S_610_0;
S_610_0: /* 2 */
		((P1 *)_this)->k = (((int)((P1 *)_this)->k)+1);
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
		goto S_614_0; /* ';' */
S_613_1: /* 3 */
S_611_0: /* 2 */
		/* else */;
S_612_0: /* 2 */
		goto S_616_0;	/* 'goto' */
S_613_2: /* 3 */
		Uerror("blocking sel in d_step (nr.34, near line 544)");
S_615_0: /* 2 */
		goto S_616_0;	/* 'break' */
S_616_0: /* 2 */
		((P1 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer1:k", ((int)((P1 *)_this)->k));
#endif
		;
S_783_0: /* 2 */
S_693_0: /* 2 */
S_617_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_647_0: /* 2 */
S_646_0: /* 2 */
S_618_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_646_1;
S_641_0: /* 2 */
S_619_0: /* 2 */
		if (!((((int)now.ldel[ Index(((int)now.gj), 2) ])==2)))
			goto S_641_1;
S_620_0: /* 2 */
		now.ldel[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ldel[gj]", ((int)now.ldel[ Index(((int)now.gj), 2) ]));
#endif
		;
S_638_0: /* 2 */
S_621_0: /* 2 */
		if (!(1))
			goto S_638_1;
S_622_0: /* 2 */
		now.live[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("live[gj]", ((int)now.live[ Index(((int)now.gj), 2) ]));
#endif
		;
S_623_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_634_0: /* 2 */
S_633_0: /* 2 */
S_624_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_633_1;
S_628_0: /* 2 */
S_625_0: /* 2 */
		if (!((((int)now.sees[ Index(((int)now.gi), 9) ])&(1<<((int)now.gj)))))
			goto S_628_1;
S_626_0: /* 2 */
		now.gone[ Index(now.gi, 9) ] = (((int)now.gone[ Index(((int)now.gi), 9) ])|(1<<((int)now.gj)));
#ifdef VAR_RANGES
		logval("gone[gi]", ((int)now.gone[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_629_0;
S_628_1: /* 3 */
S_627_0: /* 2 */
		/* else */;
		goto S_629_0;
S_628_2: /* 3 */
		Uerror("blocking sel in d_step (nr.35, near line 284)");
S_629_0: /* 2 */
S_630_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_634_0; /* ';' */
S_633_1: /* 3 */
S_631_0: /* 2 */
		/* else */;
S_632_0: /* 2 */
		goto S_636_0;	/* 'goto' */
S_633_2: /* 3 */
		Uerror("blocking sel in d_step (nr.36, near line 283)");
S_635_0: /* 2 */
		goto S_636_0;	/* 'break' */
S_636_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_639_0;
S_638_1: /* 3 */
S_637_0: /* 2 */
		/* else */;
		goto S_639_0;
S_638_2: /* 3 */
		Uerror("blocking sel in d_step (nr.37, near line 280)");
S_639_0: /* 2 */
		goto S_642_0;
S_641_1: /* 3 */
S_640_0: /* 2 */
		/* else */;
		goto S_642_0;
S_641_2: /* 3 */
		Uerror("blocking sel in d_step (nr.38, near line 277)");
S_642_0: /* 2 */
S_643_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_647_0; /* ';' */
S_646_1: /* 3 */
S_644_0: /* 2 */
		/* else */;
S_645_0: /* 2 */
		goto S_649_0;	/* 'goto' */
S_646_2: /* 3 */
		Uerror("blocking sel in d_step (nr.39, near line 275)");
S_648_0: /* 2 */
		goto S_649_0;	/* 'break' */
S_649_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_650_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_690_0: /* 2 */
S_689_0: /* 2 */
S_651_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_689_1;
S_655_0: /* 2 */
S_652_0: /* 2 */
		if (!((((int)now.tk_ex[ Index(((int)now.gt), 3) ])==2)))
			goto S_655_1;
S_653_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
		goto S_656_0;
S_655_1: /* 3 */
S_654_0: /* 2 */
		/* else */;
		goto S_656_0;
S_655_2: /* 3 */
		Uerror("blocking sel in d_step (nr.40, near line 301)");
S_656_0: /* 2 */
S_684_0: /* 2 */
S_657_0: /* 2 */
		if (!((((int)now.tk_del[ Index(((int)now.gt), 3) ])==2)))
			goto S_684_1;
S_658_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_681_0: /* 2 */
S_659_0: /* 2 */
		if (!(1))
			goto S_681_1;
S_679_0: /* 2 */
S_660_0: /* 2 */
		now.tk_tab[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_tab[gt]", ((int)now.tk_tab[ Index(((int)now.gt), 3) ]));
#endif
		;
S_661_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_662_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
S_663_0: /* 2 */
		now.tk_jobs[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_jobs[gt]", ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]));
#endif
		;
S_664_0: /* 2 */
		tk_orphan[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_orphan[gt]", ((int)tk_orphan[ Index(((int)now.gt), 3) ]));
#endif
		;
S_665_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_676_0: /* 2 */
S_675_0: /* 2 */
S_666_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_675_1;
S_670_0: /* 2 */
S_667_0: /* 2 */
		if (!((((int)now.cand[ Index(((int)now.gi), 9) ])==((int)now.gt))))
			goto S_670_1;
S_668_0: /* 2 */
		now.cand[ Index(now.gi, 9) ] = 14;
#ifdef VAR_RANGES
		logval("cand[gi]", ((int)now.cand[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_671_0;
S_670_1: /* 3 */
S_669_0: /* 2 */
		/* else */;
		goto S_671_0;
S_670_2: /* 3 */
		Uerror("blocking sel in d_step (nr.41, near line 265)");
S_671_0: /* 2 */
S_672_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_676_0; /* ';' */
S_675_1: /* 3 */
S_673_0: /* 2 */
		/* else */;
S_674_0: /* 2 */
		goto S_678_0;	/* 'goto' */
S_675_2: /* 3 */
		Uerror("blocking sel in d_step (nr.42, near line 264)");
S_677_0: /* 2 */
		goto S_678_0;	/* 'break' */
S_678_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_682_0;
S_681_1: /* 3 */
S_680_0: /* 2 */
		/* else */;
		goto S_682_0;
S_681_2: /* 3 */
		Uerror("blocking sel in d_step (nr.43, near line 306)");
S_682_0: /* 2 */
		goto S_685_0;
S_684_1: /* 3 */
S_683_0: /* 2 */
		/* else */;
		goto S_685_0;
S_684_2: /* 3 */
		Uerror("blocking sel in d_step (nr.44, near line 305)");
S_685_0: /* 2 */
S_686_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_690_0; /* ';' */
S_689_1: /* 3 */
S_687_0: /* 2 */
		/* else */;
S_688_0: /* 2 */
		goto S_692_0;	/* 'goto' */
S_689_2: /* 3 */
		Uerror("blocking sel in d_step (nr.45, near line 299)");
S_691_0: /* 2 */
		goto S_692_0;	/* 'break' */
S_692_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_708_0;
S_708_0: /* 2 */
S_694_0: /* 2 */
		if (!((( (((int)((P1 *)_this)->b)) ? (0) : (( (((int)((P1 *)_this)->z)) ? (4) : (1) )) )!=0)))
			goto S_708_1;
S_695_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_701_0: /* 2 */
S_700_0: /* 2 */
S_696_0: /* 2 */
		if (!(((((int)now.gt)<3)&&(((int)now.tk_tab[ Index(((int)now.gt), 3) ])!=0))))
			goto S_700_1;
S_697_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_701_0; /* ';' */
S_700_1: /* 3 */
S_698_0: /* 2 */
		/* else */;
S_699_0: /* 2 */
		goto S_703_0;	/* 'goto' */
S_700_2: /* 3 */
		Uerror("blocking sel in d_step (nr.46, near line 322)");
S_702_0: /* 2 */
		goto S_703_0;	/* 'break' */
S_703_0: /* 2 */
		spin_assert((((int)now.gt)<3), "(gt<3)", II, tt, t);
S_704_0: /* 2 */
		now.tk_tab[ Index(now.gt, 3) ] = ( (((int)((P1 *)_this)->b)) ? (0) : (( (((int)((P1 *)_this)->z)) ? (4) : (1) )) );
#ifdef VAR_RANGES
		logval("tk_tab[gt]", ((int)now.tk_tab[ Index(((int)now.gt), 3) ]));
#endif
		;
S_705_0: /* 2 */
		now.tk_jobs[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_jobs[gt]", ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]));
#endif
		;
S_706_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_709_0;
S_708_1: /* 3 */
S_707_0: /* 2 */
		/* else */;
		goto S_709_0;
S_708_2: /* 3 */
		Uerror("blocking sel in d_step (nr.47, near line 319)");
S_709_0: /* 2 */
S_715_0: /* 2 */
S_710_0: /* 2 */
		if (!((( (((int)((P1 *)_this)->b)) ? (0) : (1) )==1)))
			goto S_715_1;
S_711_0: /* 2 */
		now.busy = 1;
#ifdef VAR_RANGES
		logval("busy", ((int)now.busy));
#endif
		;
		goto S_716_0;
S_715_1: /* 3 */
S_712_0: /* 2 */
		if (!((( (((int)((P1 *)_this)->b)) ? (0) : (1) )==2)))
			goto S_715_2;
S_713_0: /* 2 */
		now.busy = 0;
#ifdef VAR_RANGES
		logval("busy", ((int)now.busy));
#endif
		;
		goto S_716_0;
S_715_2: /* 3 */
S_714_0: /* 2 */
		/* else */;
		goto S_716_0;
S_715_3: /* 3 */
		Uerror("blocking sel in d_step (nr.48, near line 327)");
S_716_0: /* 2 */
S_782_0: /* 2 */
S_717_0: /* 2 */
		now.gc = 0;
#ifdef VAR_RANGES
		logval("gc", ((int)now.gc));
#endif
		;
S_718_0: /* 2 */
		now.gb = 0;
#ifdef VAR_RANGES
		logval("gb", ((int)now.gb));
#endif
		;
S_719_0: /* 2 */
		now.gh = 0;
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
S_720_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_733_0: /* 2 */
S_732_0: /* 2 */
S_721_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_732_1;
S_727_0: /* 2 */
S_722_0: /* 2 */
		if (!((((int)now.tk_tab[ Index(((int)now.gt), 3) ])!=0)))
			goto S_727_1;
S_723_0: /* 2 */
		now.gc = (((int)now.gc)+1);
#ifdef VAR_RANGES
		logval("gc", ((int)now.gc));
#endif
		;
S_724_0: /* 2 */
		now.gh = ((int)now.tk_tab[ Index(((int)now.gt), 3) ]);
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
S_725_0: /* 2 */
		now.gb = ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]);
#ifdef VAR_RANGES
		logval("gb", ((int)now.gb));
#endif
		;
		goto S_728_0;
S_727_1: /* 3 */
S_726_0: /* 2 */
		/* else */;
		goto S_728_0;
S_727_2: /* 3 */
		Uerror("blocking sel in d_step (nr.49, near line 210)");
S_728_0: /* 2 */
S_729_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_733_0; /* ';' */
S_732_1: /* 3 */
S_730_0: /* 2 */
		/* else */;
S_731_0: /* 2 */
		goto S_735_0;	/* 'goto' */
S_732_2: /* 3 */
		Uerror("blocking sel in d_step (nr.50, near line 209)");
S_734_0: /* 2 */
		goto S_735_0;	/* 'break' */
S_735_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_736_0: /* 2 */
		spin_assert((((int)now.gc)<=1), "(gc<=1)", II, tt, t);
S_737_0: /* 2 */
		spin_assert((((int)now.busy)==((int)now.gc)), "(busy==gc)", II, tt, t);
S_738_0: /* 2 */
		now.gu = 0;
#ifdef VAR_RANGES
		logval("gu", ((int)now.gu));
#endif
		;
S_739_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_772_0: /* 2 */
S_771_0: /* 2 */
S_740_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_771_1;
S_751_0: /* 2 */
S_741_0: /* 2 */
		if (!((((int)now.jst[ Index(((int)now.gj), 2) ])==1)))
			goto S_751_1;
S_742_0: /* 2 */
		now.gu = 1;
#ifdef VAR_RANGES
		logval("gu", ((int)now.gu));
#endif
		;
S_747_0: /* 2 */
S_743_0: /* 2 */
		if (!(((((int)now.gh)==3)&&(((int)now.gb)&(1<<((int)now.gj))))))
			goto S_747_1;
S_744_0: /* 2 */
		spin_assert( !(((int)now.live[ Index(((int)now.gj), 2) ])), " !(live[gj])", II, tt, t);
		goto S_748_0;
S_747_1: /* 3 */
S_745_0: /* 2 */
		/* else */;
S_746_0: /* 2 */
		spin_assert(((int)now.live[ Index(((int)now.gj), 2) ]), "live[gj]", II, tt, t);
		goto S_748_0;
S_747_2: /* 3 */
		Uerror("blocking sel in d_step (nr.51, near line 222)");
S_748_0: /* 2 */
		goto S_752_0;
S_751_1: /* 3 */
S_749_0: /* 2 */
		/* else */;
S_750_0: /* 2 */
		spin_assert( !(((int)now.live[ Index(((int)now.gj), 2) ])), " !(live[gj])", II, tt, t);
		goto S_752_0;
S_751_2: /* 3 */
		Uerror("blocking sel in d_step (nr.52, near line 219)");
S_752_0: /* 2 */
S_757_0: /* 2 */
S_753_0: /* 2 */
		if (!((((int)now.jst[ Index(((int)now.gj), 2) ])==4)))
			goto S_757_1;
S_754_0: /* 2 */
		now.gu = 1;
#ifdef VAR_RANGES
		logval("gu", ((int)now.gu));
#endif
		;
S_755_0: /* 2 */
		spin_assert((((int)now.gh)==5), "(gh==5)", II, tt, t);
		goto S_758_0;
S_757_1: /* 3 */
S_756_0: /* 2 */
		/* else */;
		goto S_758_0;
S_757_2: /* 3 */
		Uerror("blocking sel in d_step (nr.53, near line 228)");
S_758_0: /* 2 */
S_759_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_766_0: /* 2 */
S_765_0: /* 2 */
S_760_0: /* 2 */
		if (!((((int)now.gi)<2)))
			goto S_765_1;
S_761_0: /* 2 */
		spin_assert( !(((((((int)now.jst[ Index(((int)now.gi), 2) ])==1)&&(((int)now.jst[ Index(((int)now.gj), 2) ])==1))&&(((int)now.rank[ Index(((int)now.gi), 2) ])<((int)now.rank[ Index(((int)now.gj), 2) ])))&&(((int)now.ord[ Index(((int)now.gi), 2) ])>((int)now.ord[ Index(((int)now.gj), 2) ])))), " !(((((jst[gi]==1)&&(jst[gj]==1))&&(rank[gi]<rank[gj]))&&(ord[gi]>ord[gj])))", II, tt, t);
S_762_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_766_0; /* ';' */
S_765_1: /* 3 */
S_763_0: /* 2 */
		/* else */;
S_764_0: /* 2 */
		goto S_768_0;	/* 'goto' */
S_765_2: /* 3 */
		Uerror("blocking sel in d_step (nr.54, near line 236)");
S_767_0: /* 2 */
		goto S_768_0;	/* 'break' */
S_768_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_772_0; /* ';' */
S_771_1: /* 3 */
S_769_0: /* 2 */
		/* else */;
S_770_0: /* 2 */
		goto S_774_0;	/* 'goto' */
S_771_2: /* 3 */
		Uerror("blocking sel in d_step (nr.55, near line 217)");
S_773_0: /* 2 */
		goto S_774_0;	/* 'break' */
S_774_0: /* 2 */
		spin_assert( !(((((int)now.gu)==1)&&(((int)now.gc)==0))), " !(((gu==1)&&(gc==0)))", II, tt, t);
S_775_0: /* 2 */
		spin_assert( !(((((int)now.gu)==0)&&(((int)now.gc)==1))), " !(((gu==0)&&(gc==1)))", II, tt, t);
S_776_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_777_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_778_0: /* 2 */
		now.gc = 0;
#ifdef VAR_RANGES
		logval("gc", ((int)now.gc));
#endif
		;
S_779_0: /* 2 */
		now.gu = 0;
#ifdef VAR_RANGES
		logval("gu", ((int)now.gu));
#endif
		;
S_780_0: /* 2 */
		now.gh = 0;
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
S_781_0: /* 2 */
		now.gb = 0;
#ifdef VAR_RANGES
		logval("gb", ((int)now.gb));
#endif
		;
		goto S_791_0;
S_791_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 16: // STATE 392 - group.pml:555 - [D_STEP555]
		if (!(((boq == -1 && (((int)now.stripe)==2))) || (boq == -1 /* else */)))
			continue;

		reached[1][392] = 1;
		reached[1][t->st] = 1;
		reached[1][tt] = 1;

		if (TstOnly) return 1;


		reached[1][392] = 1;
		reached[1][t->st] = 1;
		reached[1][tt] = 1;

		sv_save();
		S_790_0: /* 2 */
S_788_0: /* 2 */
S_785_0: /* 2 */
		if (!((((int)now.stripe)==2)))
			goto S_788_1;
S_786_0: /* 2 */
		now.stripe = 0;
#ifdef VAR_RANGES
		logval("stripe", ((int)now.stripe));
#endif
		;
		goto S_789_0;
S_788_1: /* 3 */
S_787_0: /* 2 */
		/* else */;
		goto S_789_0;
S_788_2: /* 3 */
		Uerror("blocking sel in d_step (nr.56, near line 339)");
S_789_0: /* 2 */
		goto S_793_0; /* '.' */
		goto S_793_0; /* ';' */
		goto S_793_0; /* ';' */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 17: // STATE 397 - group.pml:558 - [b = 0] (0:400:2 - 5)
		IfNotBlocked
		reached[1][397] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)((P1 *)_this)->b);
		((P1 *)_this)->b = 0;
#ifdef VAR_RANGES
		logval("Producer1:b", ((int)((P1 *)_this)->b));
#endif
		;
		/* merge: z = 0(400, 398, 400) */
		reached[1][398] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P1 *)_this)->z);
		((P1 *)_this)->z = 0;
#ifdef VAR_RANGES
		logval("Producer1:z", ((int)((P1 *)_this)->z));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 18: // STATE 400 - group.pml:607 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[1][400] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC Producer0 */
	case 19: // STATE 97 - group.pml:526 - [D_STEP526]
		if (!(boq == -1 && (((int)now.prb)>0)))
			continue;

		reached[0][97] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_000_0: /* 2 */
		if (!((((int)now.prb)>0)))
			Uerror("block in d_step seq");
S_001_0: /* 2 */
		now.prb = (((int)now.prb)-1);
#ifdef VAR_RANGES
		logval("prb", ((int)now.prb));
#endif
		;
S_002_0: /* 2 */
		((P0 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
S_010_0: /* 2 */
S_009_0: /* 2 */
S_003_0: /* 2 */
		if (!((((int)((P0 *)_this)->k)<=0)))
			goto S_009_1;
S_004_0: /* 2 */
		now.jst[ Index(((P0 *)_this)->k, 2) ] = 5;
#ifdef VAR_RANGES
		logval("jst[Producer0:k]", ((int)now.jst[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
S_005_0: /* 2 */
		now.ord[ Index(((P0 *)_this)->k, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ord[Producer0:k]", ((int)now.ord[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
S_006_0: /* 2 */
		((P0 *)_this)->k = (((int)((P0 *)_this)->k)+1);
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
		goto S_010_0; /* ';' */
S_009_1: /* 3 */
S_007_0: /* 2 */
		/* else */;
S_008_0: /* 2 */
		goto S_012_0;	/* 'goto' */
S_009_2: /* 3 */
		Uerror("blocking sel in d_step (nr.57, near line 526)");
S_011_0: /* 2 */
		goto S_012_0;	/* 'break' */
S_012_0: /* 2 */
		((P0 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
S_095_0: /* 2 */
S_089_0: /* 2 */
S_013_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_043_0: /* 2 */
S_042_0: /* 2 */
S_014_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_042_1;
S_037_0: /* 2 */
S_015_0: /* 2 */
		if (!((((int)now.ldel[ Index(((int)now.gj), 2) ])==1)))
			goto S_037_1;
S_016_0: /* 2 */
		now.ldel[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ldel[gj]", ((int)now.ldel[ Index(((int)now.gj), 2) ]));
#endif
		;
S_034_0: /* 2 */
S_017_0: /* 2 */
		if (!(0))
			goto S_034_1;
S_018_0: /* 2 */
		now.live[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("live[gj]", ((int)now.live[ Index(((int)now.gj), 2) ]));
#endif
		;
S_019_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_030_0: /* 2 */
S_029_0: /* 2 */
S_020_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_029_1;
S_024_0: /* 2 */
S_021_0: /* 2 */
		if (!((((int)now.sees[ Index(((int)now.gi), 9) ])&(1<<((int)now.gj)))))
			goto S_024_1;
S_022_0: /* 2 */
		now.gone[ Index(now.gi, 9) ] = (((int)now.gone[ Index(((int)now.gi), 9) ])|(1<<((int)now.gj)));
#ifdef VAR_RANGES
		logval("gone[gi]", ((int)now.gone[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_025_0;
S_024_1: /* 3 */
S_023_0: /* 2 */
		/* else */;
		goto S_025_0;
S_024_2: /* 3 */
		Uerror("blocking sel in d_step (nr.58, near line 284)");
S_025_0: /* 2 */
S_026_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_030_0; /* ';' */
S_029_1: /* 3 */
S_027_0: /* 2 */
		/* else */;
S_028_0: /* 2 */
		goto S_032_0;	/* 'goto' */
S_029_2: /* 3 */
		Uerror("blocking sel in d_step (nr.59, near line 283)");
S_031_0: /* 2 */
		goto S_032_0;	/* 'break' */
S_032_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_035_0;
S_034_1: /* 3 */
S_033_0: /* 2 */
		/* else */;
		goto S_035_0;
S_034_2: /* 3 */
		Uerror("blocking sel in d_step (nr.60, near line 280)");
S_035_0: /* 2 */
		goto S_038_0;
S_037_1: /* 3 */
S_036_0: /* 2 */
		/* else */;
		goto S_038_0;
S_037_2: /* 3 */
		Uerror("blocking sel in d_step (nr.61, near line 277)");
S_038_0: /* 2 */
S_039_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_043_0; /* ';' */
S_042_1: /* 3 */
S_040_0: /* 2 */
		/* else */;
S_041_0: /* 2 */
		goto S_045_0;	/* 'goto' */
S_042_2: /* 3 */
		Uerror("blocking sel in d_step (nr.62, near line 275)");
S_044_0: /* 2 */
		goto S_045_0;	/* 'break' */
S_045_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_046_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_086_0: /* 2 */
S_085_0: /* 2 */
S_047_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_085_1;
S_051_0: /* 2 */
S_048_0: /* 2 */
		if (!((((int)now.tk_ex[ Index(((int)now.gt), 3) ])==1)))
			goto S_051_1;
S_049_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
		goto S_052_0;
S_051_1: /* 3 */
S_050_0: /* 2 */
		/* else */;
		goto S_052_0;
S_051_2: /* 3 */
		Uerror("blocking sel in d_step (nr.63, near line 301)");
S_052_0: /* 2 */
S_080_0: /* 2 */
S_053_0: /* 2 */
		if (!((((int)now.tk_del[ Index(((int)now.gt), 3) ])==1)))
			goto S_080_1;
S_054_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_077_0: /* 2 */
S_055_0: /* 2 */
		if (!(0))
			goto S_077_1;
S_075_0: /* 2 */
S_056_0: /* 2 */
		now.tk_tab[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_tab[gt]", ((int)now.tk_tab[ Index(((int)now.gt), 3) ]));
#endif
		;
S_057_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_058_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
S_059_0: /* 2 */
		now.tk_jobs[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_jobs[gt]", ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]));
#endif
		;
S_060_0: /* 2 */
		tk_orphan[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_orphan[gt]", ((int)tk_orphan[ Index(((int)now.gt), 3) ]));
#endif
		;
S_061_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_072_0: /* 2 */
S_071_0: /* 2 */
S_062_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_071_1;
S_066_0: /* 2 */
S_063_0: /* 2 */
		if (!((((int)now.cand[ Index(((int)now.gi), 9) ])==((int)now.gt))))
			goto S_066_1;
S_064_0: /* 2 */
		now.cand[ Index(now.gi, 9) ] = 14;
#ifdef VAR_RANGES
		logval("cand[gi]", ((int)now.cand[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_067_0;
S_066_1: /* 3 */
S_065_0: /* 2 */
		/* else */;
		goto S_067_0;
S_066_2: /* 3 */
		Uerror("blocking sel in d_step (nr.64, near line 265)");
S_067_0: /* 2 */
S_068_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_072_0; /* ';' */
S_071_1: /* 3 */
S_069_0: /* 2 */
		/* else */;
S_070_0: /* 2 */
		goto S_074_0;	/* 'goto' */
S_071_2: /* 3 */
		Uerror("blocking sel in d_step (nr.65, near line 264)");
S_073_0: /* 2 */
		goto S_074_0;	/* 'break' */
S_074_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_078_0;
S_077_1: /* 3 */
S_076_0: /* 2 */
		/* else */;
		goto S_078_0;
S_077_2: /* 3 */
		Uerror("blocking sel in d_step (nr.66, near line 306)");
S_078_0: /* 2 */
		goto S_081_0;
S_080_1: /* 3 */
S_079_0: /* 2 */
		/* else */;
		goto S_081_0;
S_080_2: /* 3 */
		Uerror("blocking sel in d_step (nr.67, near line 305)");
S_081_0: /* 2 */
S_082_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_086_0; /* ';' */
S_085_1: /* 3 */
S_083_0: /* 2 */
		/* else */;
S_084_0: /* 2 */
		goto S_088_0;	/* 'goto' */
S_085_2: /* 3 */
		Uerror("blocking sel in d_step (nr.68, near line 299)");
S_087_0: /* 2 */
		goto S_088_0;	/* 'break' */
S_088_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_093_0;
S_093_0: /* 2 */
S_090_0: /* 2 */
		if (!((((int)now.stripe)==1)))
			goto S_093_1;
S_091_0: /* 2 */
		now.stripe = 0;
#ifdef VAR_RANGES
		logval("stripe", ((int)now.stripe));
#endif
		;
		goto S_094_0;
S_093_1: /* 3 */
S_092_0: /* 2 */
		/* else */;
		goto S_094_0;
S_093_2: /* 3 */
		Uerror("blocking sel in d_step (nr.69, near line 334)");
S_094_0: /* 2 */
		goto S_395_0;
S_395_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 20: // STATE 98 - group.pml:527 - [((stripe==0))] (103:0:1 - 1)
		IfNotBlocked
		reached[0][98] = 1;
		if (!((((int)now.stripe)==0)))
			continue;
		/* merge: stripe = 1(0, 99, 103) */
		reached[0][99] = 1;
		(trpt+1)->bup.oval = ((int)now.stripe);
		now.stripe = 1;
#ifdef VAR_RANGES
		logval("stripe", ((int)now.stripe));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 21: // STATE 103 - group.pml:535 - [D_STEP535]
		IfNotBlocked

		reached[0][103] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_100_0: /* 2 */
		((P0 *)_this)->b = ((int)now.busy);
#ifdef VAR_RANGES
		logval("Producer0:b", ((int)((P0 *)_this)->b));
#endif
		;
S_101_0: /* 2 */
		((P0 *)_this)->z = 0;
#ifdef VAR_RANGES
		logval("Producer0:z", ((int)((P0 *)_this)->z));
#endif
		;
		goto S_392_0;
S_392_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 22: // STATE 200 - group.pml:541 - [D_STEP541]
		if (!(boq == -1 && (((int)now.prb)>0)))
			continue;

		reached[0][200] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_103_0: /* 2 */
		if (!((((int)now.prb)>0)))
			Uerror("block in d_step seq");
S_104_0: /* 2 */
		now.prb = (((int)now.prb)-1);
#ifdef VAR_RANGES
		logval("prb", ((int)now.prb));
#endif
		;
S_105_0: /* 2 */
		((P0 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
S_113_0: /* 2 */
S_112_0: /* 2 */
S_106_0: /* 2 */
		if (!((((int)((P0 *)_this)->k)<=0)))
			goto S_112_1;
S_107_0: /* 2 */
		now.jst[ Index(((P0 *)_this)->k, 2) ] = 5;
#ifdef VAR_RANGES
		logval("jst[Producer0:k]", ((int)now.jst[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
S_108_0: /* 2 */
		now.ord[ Index(((P0 *)_this)->k, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ord[Producer0:k]", ((int)now.ord[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
S_109_0: /* 2 */
		((P0 *)_this)->k = (((int)((P0 *)_this)->k)+1);
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
		goto S_113_0; /* ';' */
S_112_1: /* 3 */
S_110_0: /* 2 */
		/* else */;
S_111_0: /* 2 */
		goto S_115_0;	/* 'goto' */
S_112_2: /* 3 */
		Uerror("blocking sel in d_step (nr.70, near line 541)");
S_114_0: /* 2 */
		goto S_115_0;	/* 'break' */
S_115_0: /* 2 */
		((P0 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
S_198_0: /* 2 */
S_192_0: /* 2 */
S_116_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_146_0: /* 2 */
S_145_0: /* 2 */
S_117_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_145_1;
S_140_0: /* 2 */
S_118_0: /* 2 */
		if (!((((int)now.ldel[ Index(((int)now.gj), 2) ])==1)))
			goto S_140_1;
S_119_0: /* 2 */
		now.ldel[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ldel[gj]", ((int)now.ldel[ Index(((int)now.gj), 2) ]));
#endif
		;
S_137_0: /* 2 */
S_120_0: /* 2 */
		if (!(0))
			goto S_137_1;
S_121_0: /* 2 */
		now.live[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("live[gj]", ((int)now.live[ Index(((int)now.gj), 2) ]));
#endif
		;
S_122_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_133_0: /* 2 */
S_132_0: /* 2 */
S_123_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_132_1;
S_127_0: /* 2 */
S_124_0: /* 2 */
		if (!((((int)now.sees[ Index(((int)now.gi), 9) ])&(1<<((int)now.gj)))))
			goto S_127_1;
S_125_0: /* 2 */
		now.gone[ Index(now.gi, 9) ] = (((int)now.gone[ Index(((int)now.gi), 9) ])|(1<<((int)now.gj)));
#ifdef VAR_RANGES
		logval("gone[gi]", ((int)now.gone[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_128_0;
S_127_1: /* 3 */
S_126_0: /* 2 */
		/* else */;
		goto S_128_0;
S_127_2: /* 3 */
		Uerror("blocking sel in d_step (nr.71, near line 284)");
S_128_0: /* 2 */
S_129_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_133_0; /* ';' */
S_132_1: /* 3 */
S_130_0: /* 2 */
		/* else */;
S_131_0: /* 2 */
		goto S_135_0;	/* 'goto' */
S_132_2: /* 3 */
		Uerror("blocking sel in d_step (nr.72, near line 283)");
S_134_0: /* 2 */
		goto S_135_0;	/* 'break' */
S_135_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_138_0;
S_137_1: /* 3 */
S_136_0: /* 2 */
		/* else */;
		goto S_138_0;
S_137_2: /* 3 */
		Uerror("blocking sel in d_step (nr.73, near line 280)");
S_138_0: /* 2 */
		goto S_141_0;
S_140_1: /* 3 */
S_139_0: /* 2 */
		/* else */;
		goto S_141_0;
S_140_2: /* 3 */
		Uerror("blocking sel in d_step (nr.74, near line 277)");
S_141_0: /* 2 */
S_142_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_146_0; /* ';' */
S_145_1: /* 3 */
S_143_0: /* 2 */
		/* else */;
S_144_0: /* 2 */
		goto S_148_0;	/* 'goto' */
S_145_2: /* 3 */
		Uerror("blocking sel in d_step (nr.75, near line 275)");
S_147_0: /* 2 */
		goto S_148_0;	/* 'break' */
S_148_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_149_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_189_0: /* 2 */
S_188_0: /* 2 */
S_150_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_188_1;
S_154_0: /* 2 */
S_151_0: /* 2 */
		if (!((((int)now.tk_ex[ Index(((int)now.gt), 3) ])==1)))
			goto S_154_1;
S_152_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
		goto S_155_0;
S_154_1: /* 3 */
S_153_0: /* 2 */
		/* else */;
		goto S_155_0;
S_154_2: /* 3 */
		Uerror("blocking sel in d_step (nr.76, near line 301)");
S_155_0: /* 2 */
S_183_0: /* 2 */
S_156_0: /* 2 */
		if (!((((int)now.tk_del[ Index(((int)now.gt), 3) ])==1)))
			goto S_183_1;
S_157_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_180_0: /* 2 */
S_158_0: /* 2 */
		if (!(0))
			goto S_180_1;
S_178_0: /* 2 */
S_159_0: /* 2 */
		now.tk_tab[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_tab[gt]", ((int)now.tk_tab[ Index(((int)now.gt), 3) ]));
#endif
		;
S_160_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_161_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
S_162_0: /* 2 */
		now.tk_jobs[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_jobs[gt]", ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]));
#endif
		;
S_163_0: /* 2 */
		tk_orphan[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_orphan[gt]", ((int)tk_orphan[ Index(((int)now.gt), 3) ]));
#endif
		;
S_164_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_175_0: /* 2 */
S_174_0: /* 2 */
S_165_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_174_1;
S_169_0: /* 2 */
S_166_0: /* 2 */
		if (!((((int)now.cand[ Index(((int)now.gi), 9) ])==((int)now.gt))))
			goto S_169_1;
S_167_0: /* 2 */
		now.cand[ Index(now.gi, 9) ] = 14;
#ifdef VAR_RANGES
		logval("cand[gi]", ((int)now.cand[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_170_0;
S_169_1: /* 3 */
S_168_0: /* 2 */
		/* else */;
		goto S_170_0;
S_169_2: /* 3 */
		Uerror("blocking sel in d_step (nr.77, near line 265)");
S_170_0: /* 2 */
S_171_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_175_0; /* ';' */
S_174_1: /* 3 */
S_172_0: /* 2 */
		/* else */;
S_173_0: /* 2 */
		goto S_177_0;	/* 'goto' */
S_174_2: /* 3 */
		Uerror("blocking sel in d_step (nr.78, near line 264)");
S_176_0: /* 2 */
		goto S_177_0;	/* 'break' */
S_177_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_181_0;
S_180_1: /* 3 */
S_179_0: /* 2 */
		/* else */;
		goto S_181_0;
S_180_2: /* 3 */
		Uerror("blocking sel in d_step (nr.79, near line 306)");
S_181_0: /* 2 */
		goto S_184_0;
S_183_1: /* 3 */
S_182_0: /* 2 */
		/* else */;
		goto S_184_0;
S_183_2: /* 3 */
		Uerror("blocking sel in d_step (nr.80, near line 305)");
S_184_0: /* 2 */
S_185_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_189_0; /* ';' */
S_188_1: /* 3 */
S_186_0: /* 2 */
		/* else */;
S_187_0: /* 2 */
		goto S_191_0;	/* 'goto' */
S_188_2: /* 3 */
		Uerror("blocking sel in d_step (nr.81, near line 299)");
S_190_0: /* 2 */
		goto S_191_0;	/* 'break' */
S_191_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_196_0;
S_196_0: /* 2 */
S_193_0: /* 2 */
		if (!((((int)now.stripe)==1)))
			goto S_196_1;
S_194_0: /* 2 */
		now.stripe = 0;
#ifdef VAR_RANGES
		logval("stripe", ((int)now.stripe));
#endif
		;
		goto S_197_0;
S_196_1: /* 3 */
S_195_0: /* 2 */
		/* else */;
		goto S_197_0;
S_196_2: /* 3 */
		Uerror("blocking sel in d_step (nr.82, near line 334)");
S_197_0: /* 2 */
		goto S_393_0;
S_393_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 23: // STATE 385 - group.pml:542 - [D_STEP542]
		IfNotBlocked

		reached[0][385] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_200_0: /* 2 */
		((P0 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
S_214_0: /* 2 */
S_213_0: /* 2 */
S_201_0: /* 2 */
		if (!((((int)((P0 *)_this)->k)<=0)))
			goto S_213_1;
S_204_0: /* 2 */
S_202_0: /* 2 */
		now.seq = (((int)now.seq)+1);
#ifdef VAR_RANGES
		logval("seq", ((int)now.seq));
#endif
		;
S_203_0: /* 2 */
		now.ord[ Index(((P0 *)_this)->k, 2) ] = ((int)now.seq);
#ifdef VAR_RANGES
		logval("ord[Producer0:k]", ((int)now.ord[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
		goto S_209_0;
S_209_0: /* 2 */
S_205_0: /* 2 */
		now.live[ Index(((P0 *)_this)->k, 2) ] = 1;
#ifdef VAR_RANGES
		logval("live[Producer0:k]", ((int)now.live[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
S_206_0: /* 2 */
		now.nrank = (((int)now.nrank)+1);
#ifdef VAR_RANGES
		logval("nrank", ((int)now.nrank));
#endif
		;
S_207_0: /* 2 */
		now.rank[ Index(((P0 *)_this)->k, 2) ] = ((int)now.nrank);
#ifdef VAR_RANGES
		logval("rank[Producer0:k]", ((int)now.rank[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
S_208_0: /* 2 */
		now.jst[ Index(((P0 *)_this)->k, 2) ] = 1;
#ifdef VAR_RANGES
		logval("jst[Producer0:k]", ((int)now.jst[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
		goto S_210_0;
S_210_0: /* 2 */
		((P0 *)_this)->k = (((int)((P0 *)_this)->k)+1);
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
		goto S_214_0; /* ';' */
S_213_1: /* 3 */
S_211_0: /* 2 */
		/* else */;
S_212_0: /* 2 */
		goto S_216_0;	/* 'goto' */
S_213_2: /* 3 */
		Uerror("blocking sel in d_step (nr.83, near line 544)");
S_215_0: /* 2 */
		goto S_216_0;	/* 'break' */
S_216_0: /* 2 */
		((P0 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("Producer0:k", ((int)((P0 *)_this)->k));
#endif
		;
S_383_0: /* 2 */
S_293_0: /* 2 */
S_217_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_247_0: /* 2 */
S_246_0: /* 2 */
S_218_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_246_1;
S_241_0: /* 2 */
S_219_0: /* 2 */
		if (!((((int)now.ldel[ Index(((int)now.gj), 2) ])==1)))
			goto S_241_1;
S_220_0: /* 2 */
		now.ldel[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ldel[gj]", ((int)now.ldel[ Index(((int)now.gj), 2) ]));
#endif
		;
S_238_0: /* 2 */
S_221_0: /* 2 */
		if (!(1))
			goto S_238_1;
S_222_0: /* 2 */
		now.live[ Index(now.gj, 2) ] = 0;
#ifdef VAR_RANGES
		logval("live[gj]", ((int)now.live[ Index(((int)now.gj), 2) ]));
#endif
		;
S_223_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_234_0: /* 2 */
S_233_0: /* 2 */
S_224_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_233_1;
S_228_0: /* 2 */
S_225_0: /* 2 */
		if (!((((int)now.sees[ Index(((int)now.gi), 9) ])&(1<<((int)now.gj)))))
			goto S_228_1;
S_226_0: /* 2 */
		now.gone[ Index(now.gi, 9) ] = (((int)now.gone[ Index(((int)now.gi), 9) ])|(1<<((int)now.gj)));
#ifdef VAR_RANGES
		logval("gone[gi]", ((int)now.gone[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_229_0;
S_228_1: /* 3 */
S_227_0: /* 2 */
		/* else */;
		goto S_229_0;
S_228_2: /* 3 */
		Uerror("blocking sel in d_step (nr.84, near line 284)");
S_229_0: /* 2 */
S_230_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_234_0; /* ';' */
S_233_1: /* 3 */
S_231_0: /* 2 */
		/* else */;
S_232_0: /* 2 */
		goto S_236_0;	/* 'goto' */
S_233_2: /* 3 */
		Uerror("blocking sel in d_step (nr.85, near line 283)");
S_235_0: /* 2 */
		goto S_236_0;	/* 'break' */
S_236_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_239_0;
S_238_1: /* 3 */
S_237_0: /* 2 */
		/* else */;
		goto S_239_0;
S_238_2: /* 3 */
		Uerror("blocking sel in d_step (nr.86, near line 280)");
S_239_0: /* 2 */
		goto S_242_0;
S_241_1: /* 3 */
S_240_0: /* 2 */
		/* else */;
		goto S_242_0;
S_241_2: /* 3 */
		Uerror("blocking sel in d_step (nr.87, near line 277)");
S_242_0: /* 2 */
S_243_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_247_0; /* ';' */
S_246_1: /* 3 */
S_244_0: /* 2 */
		/* else */;
S_245_0: /* 2 */
		goto S_249_0;	/* 'goto' */
S_246_2: /* 3 */
		Uerror("blocking sel in d_step (nr.88, near line 275)");
S_248_0: /* 2 */
		goto S_249_0;	/* 'break' */
S_249_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_250_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_290_0: /* 2 */
S_289_0: /* 2 */
S_251_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_289_1;
S_255_0: /* 2 */
S_252_0: /* 2 */
		if (!((((int)now.tk_ex[ Index(((int)now.gt), 3) ])==1)))
			goto S_255_1;
S_253_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
		goto S_256_0;
S_255_1: /* 3 */
S_254_0: /* 2 */
		/* else */;
		goto S_256_0;
S_255_2: /* 3 */
		Uerror("blocking sel in d_step (nr.89, near line 301)");
S_256_0: /* 2 */
S_284_0: /* 2 */
S_257_0: /* 2 */
		if (!((((int)now.tk_del[ Index(((int)now.gt), 3) ])==1)))
			goto S_284_1;
S_258_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_281_0: /* 2 */
S_259_0: /* 2 */
		if (!(1))
			goto S_281_1;
S_279_0: /* 2 */
S_260_0: /* 2 */
		now.tk_tab[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_tab[gt]", ((int)now.tk_tab[ Index(((int)now.gt), 3) ]));
#endif
		;
S_261_0: /* 2 */
		now.tk_del[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_del[gt]", ((int)now.tk_del[ Index(((int)now.gt), 3) ]));
#endif
		;
S_262_0: /* 2 */
		now.tk_ex[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_ex[gt]", ((int)now.tk_ex[ Index(((int)now.gt), 3) ]));
#endif
		;
S_263_0: /* 2 */
		now.tk_jobs[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_jobs[gt]", ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]));
#endif
		;
S_264_0: /* 2 */
		tk_orphan[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_orphan[gt]", ((int)tk_orphan[ Index(((int)now.gt), 3) ]));
#endif
		;
S_265_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_276_0: /* 2 */
S_275_0: /* 2 */
S_266_0: /* 2 */
		if (!((((int)now.gi)<9)))
			goto S_275_1;
S_270_0: /* 2 */
S_267_0: /* 2 */
		if (!((((int)now.cand[ Index(((int)now.gi), 9) ])==((int)now.gt))))
			goto S_270_1;
S_268_0: /* 2 */
		now.cand[ Index(now.gi, 9) ] = 14;
#ifdef VAR_RANGES
		logval("cand[gi]", ((int)now.cand[ Index(((int)now.gi), 9) ]));
#endif
		;
		goto S_271_0;
S_270_1: /* 3 */
S_269_0: /* 2 */
		/* else */;
		goto S_271_0;
S_270_2: /* 3 */
		Uerror("blocking sel in d_step (nr.90, near line 265)");
S_271_0: /* 2 */
S_272_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_276_0; /* ';' */
S_275_1: /* 3 */
S_273_0: /* 2 */
		/* else */;
S_274_0: /* 2 */
		goto S_278_0;	/* 'goto' */
S_275_2: /* 3 */
		Uerror("blocking sel in d_step (nr.91, near line 264)");
S_277_0: /* 2 */
		goto S_278_0;	/* 'break' */
S_278_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_282_0;
S_281_1: /* 3 */
S_280_0: /* 2 */
		/* else */;
		goto S_282_0;
S_281_2: /* 3 */
		Uerror("blocking sel in d_step (nr.92, near line 306)");
S_282_0: /* 2 */
		goto S_285_0;
S_284_1: /* 3 */
S_283_0: /* 2 */
		/* else */;
		goto S_285_0;
S_284_2: /* 3 */
		Uerror("blocking sel in d_step (nr.93, near line 305)");
S_285_0: /* 2 */
S_286_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_290_0; /* ';' */
S_289_1: /* 3 */
S_287_0: /* 2 */
		/* else */;
S_288_0: /* 2 */
		goto S_292_0;	/* 'goto' */
S_289_2: /* 3 */
		Uerror("blocking sel in d_step (nr.94, near line 299)");
S_291_0: /* 2 */
		goto S_292_0;	/* 'break' */
S_292_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_308_0;
S_308_0: /* 2 */
S_294_0: /* 2 */
		if (!((( (((int)((P0 *)_this)->b)) ? (0) : (( (((int)((P0 *)_this)->z)) ? (4) : (1) )) )!=0)))
			goto S_308_1;
S_295_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_301_0: /* 2 */
S_300_0: /* 2 */
S_296_0: /* 2 */
		if (!(((((int)now.gt)<3)&&(((int)now.tk_tab[ Index(((int)now.gt), 3) ])!=0))))
			goto S_300_1;
S_297_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_301_0; /* ';' */
S_300_1: /* 3 */
S_298_0: /* 2 */
		/* else */;
S_299_0: /* 2 */
		goto S_303_0;	/* 'goto' */
S_300_2: /* 3 */
		Uerror("blocking sel in d_step (nr.95, near line 322)");
S_302_0: /* 2 */
		goto S_303_0;	/* 'break' */
S_303_0: /* 2 */
		spin_assert((((int)now.gt)<3), "(gt<3)", II, tt, t);
S_304_0: /* 2 */
		now.tk_tab[ Index(now.gt, 3) ] = ( (((int)((P0 *)_this)->b)) ? (0) : (( (((int)((P0 *)_this)->z)) ? (4) : (1) )) );
#ifdef VAR_RANGES
		logval("tk_tab[gt]", ((int)now.tk_tab[ Index(((int)now.gt), 3) ]));
#endif
		;
S_305_0: /* 2 */
		now.tk_jobs[ Index(now.gt, 3) ] = 0;
#ifdef VAR_RANGES
		logval("tk_jobs[gt]", ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]));
#endif
		;
S_306_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_309_0;
S_308_1: /* 3 */
S_307_0: /* 2 */
		/* else */;
		goto S_309_0;
S_308_2: /* 3 */
		Uerror("blocking sel in d_step (nr.96, near line 319)");
S_309_0: /* 2 */
S_315_0: /* 2 */
S_310_0: /* 2 */
		if (!((( (((int)((P0 *)_this)->b)) ? (0) : (1) )==1)))
			goto S_315_1;
S_311_0: /* 2 */
		now.busy = 1;
#ifdef VAR_RANGES
		logval("busy", ((int)now.busy));
#endif
		;
		goto S_316_0;
S_315_1: /* 3 */
S_312_0: /* 2 */
		if (!((( (((int)((P0 *)_this)->b)) ? (0) : (1) )==2)))
			goto S_315_2;
S_313_0: /* 2 */
		now.busy = 0;
#ifdef VAR_RANGES
		logval("busy", ((int)now.busy));
#endif
		;
		goto S_316_0;
S_315_2: /* 3 */
S_314_0: /* 2 */
		/* else */;
		goto S_316_0;
S_315_3: /* 3 */
		Uerror("blocking sel in d_step (nr.97, near line 327)");
S_316_0: /* 2 */
S_382_0: /* 2 */
S_317_0: /* 2 */
		now.gc = 0;
#ifdef VAR_RANGES
		logval("gc", ((int)now.gc));
#endif
		;
S_318_0: /* 2 */
		now.gb = 0;
#ifdef VAR_RANGES
		logval("gb", ((int)now.gb));
#endif
		;
S_319_0: /* 2 */
		now.gh = 0;
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
S_320_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_333_0: /* 2 */
S_332_0: /* 2 */
S_321_0: /* 2 */
		if (!((((int)now.gt)<3)))
			goto S_332_1;
S_327_0: /* 2 */
S_322_0: /* 2 */
		if (!((((int)now.tk_tab[ Index(((int)now.gt), 3) ])!=0)))
			goto S_327_1;
S_323_0: /* 2 */
		now.gc = (((int)now.gc)+1);
#ifdef VAR_RANGES
		logval("gc", ((int)now.gc));
#endif
		;
S_324_0: /* 2 */
		now.gh = ((int)now.tk_tab[ Index(((int)now.gt), 3) ]);
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
S_325_0: /* 2 */
		now.gb = ((int)now.tk_jobs[ Index(((int)now.gt), 3) ]);
#ifdef VAR_RANGES
		logval("gb", ((int)now.gb));
#endif
		;
		goto S_328_0;
S_327_1: /* 3 */
S_326_0: /* 2 */
		/* else */;
		goto S_328_0;
S_327_2: /* 3 */
		Uerror("blocking sel in d_step (nr.98, near line 210)");
S_328_0: /* 2 */
S_329_0: /* 2 */
		now.gt = (((int)now.gt)+1);
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
		goto S_333_0; /* ';' */
S_332_1: /* 3 */
S_330_0: /* 2 */
		/* else */;
S_331_0: /* 2 */
		goto S_335_0;	/* 'goto' */
S_332_2: /* 3 */
		Uerror("blocking sel in d_step (nr.99, near line 209)");
S_334_0: /* 2 */
		goto S_335_0;	/* 'break' */
S_335_0: /* 2 */
		now.gt = 0;
#ifdef VAR_RANGES
		logval("gt", ((int)now.gt));
#endif
		;
S_336_0: /* 2 */
		spin_assert((((int)now.gc)<=1), "(gc<=1)", II, tt, t);
S_337_0: /* 2 */
		spin_assert((((int)now.busy)==((int)now.gc)), "(busy==gc)", II, tt, t);
S_338_0: /* 2 */
		now.gu = 0;
#ifdef VAR_RANGES
		logval("gu", ((int)now.gu));
#endif
		;
S_339_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_372_0: /* 2 */
S_371_0: /* 2 */
S_340_0: /* 2 */
		if (!((((int)now.gj)<2)))
			goto S_371_1;
S_351_0: /* 2 */
S_341_0: /* 2 */
		if (!((((int)now.jst[ Index(((int)now.gj), 2) ])==1)))
			goto S_351_1;
S_342_0: /* 2 */
		now.gu = 1;
#ifdef VAR_RANGES
		logval("gu", ((int)now.gu));
#endif
		;
S_347_0: /* 2 */
S_343_0: /* 2 */
		if (!(((((int)now.gh)==3)&&(((int)now.gb)&(1<<((int)now.gj))))))
			goto S_347_1;
S_344_0: /* 2 */
		spin_assert( !(((int)now.live[ Index(((int)now.gj), 2) ])), " !(live[gj])", II, tt, t);
		goto S_348_0;
S_347_1: /* 3 */
S_345_0: /* 2 */
		/* else */;
S_346_0: /* 2 */
		spin_assert(((int)now.live[ Index(((int)now.gj), 2) ]), "live[gj]", II, tt, t);
		goto S_348_0;
S_347_2: /* 3 */
		Uerror("blocking sel in d_step (nr.100, near line 222)");
S_348_0: /* 2 */
		goto S_352_0;
S_351_1: /* 3 */
S_349_0: /* 2 */
		/* else */;
S_350_0: /* 2 */
		spin_assert( !(((int)now.live[ Index(((int)now.gj), 2) ])), " !(live[gj])", II, tt, t);
		goto S_352_0;
S_351_2: /* 3 */
		Uerror("blocking sel in d_step (nr.101, near line 219)");
S_352_0: /* 2 */
S_357_0: /* 2 */
S_353_0: /* 2 */
		if (!((((int)now.jst[ Index(((int)now.gj), 2) ])==4)))
			goto S_357_1;
S_354_0: /* 2 */
		now.gu = 1;
#ifdef VAR_RANGES
		logval("gu", ((int)now.gu));
#endif
		;
S_355_0: /* 2 */
		spin_assert((((int)now.gh)==5), "(gh==5)", II, tt, t);
		goto S_358_0;
S_357_1: /* 3 */
S_356_0: /* 2 */
		/* else */;
		goto S_358_0;
S_357_2: /* 3 */
		Uerror("blocking sel in d_step (nr.102, near line 228)");
S_358_0: /* 2 */
S_359_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_366_0: /* 2 */
S_365_0: /* 2 */
S_360_0: /* 2 */
		if (!((((int)now.gi)<2)))
			goto S_365_1;
S_361_0: /* 2 */
		spin_assert( !(((((((int)now.jst[ Index(((int)now.gi), 2) ])==1)&&(((int)now.jst[ Index(((int)now.gj), 2) ])==1))&&(((int)now.rank[ Index(((int)now.gi), 2) ])<((int)now.rank[ Index(((int)now.gj), 2) ])))&&(((int)now.ord[ Index(((int)now.gi), 2) ])>((int)now.ord[ Index(((int)now.gj), 2) ])))), " !(((((jst[gi]==1)&&(jst[gj]==1))&&(rank[gi]<rank[gj]))&&(ord[gi]>ord[gj])))", II, tt, t);
S_362_0: /* 2 */
		now.gi = (((int)now.gi)+1);
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
		goto S_366_0; /* ';' */
S_365_1: /* 3 */
S_363_0: /* 2 */
		/* else */;
S_364_0: /* 2 */
		goto S_368_0;	/* 'goto' */
S_365_2: /* 3 */
		Uerror("blocking sel in d_step (nr.103, near line 236)");
S_367_0: /* 2 */
		goto S_368_0;	/* 'break' */
S_368_0: /* 2 */
		now.gj = (((int)now.gj)+1);
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
		goto S_372_0; /* ';' */
S_371_1: /* 3 */
S_369_0: /* 2 */
		/* else */;
S_370_0: /* 2 */
		goto S_374_0;	/* 'goto' */
S_371_2: /* 3 */
		Uerror("blocking sel in d_step (nr.104, near line 217)");
S_373_0: /* 2 */
		goto S_374_0;	/* 'break' */
S_374_0: /* 2 */
		spin_assert( !(((((int)now.gu)==1)&&(((int)now.gc)==0))), " !(((gu==1)&&(gc==0)))", II, tt, t);
S_375_0: /* 2 */
		spin_assert( !(((((int)now.gu)==0)&&(((int)now.gc)==1))), " !(((gu==0)&&(gc==1)))", II, tt, t);
S_376_0: /* 2 */
		now.gi = 0;
#ifdef VAR_RANGES
		logval("gi", ((int)now.gi));
#endif
		;
S_377_0: /* 2 */
		now.gj = 0;
#ifdef VAR_RANGES
		logval("gj", ((int)now.gj));
#endif
		;
S_378_0: /* 2 */
		now.gc = 0;
#ifdef VAR_RANGES
		logval("gc", ((int)now.gc));
#endif
		;
S_379_0: /* 2 */
		now.gu = 0;
#ifdef VAR_RANGES
		logval("gu", ((int)now.gu));
#endif
		;
S_380_0: /* 2 */
		now.gh = 0;
#ifdef VAR_RANGES
		logval("gh", ((int)now.gh));
#endif
		;
S_381_0: /* 2 */
		now.gb = 0;
#ifdef VAR_RANGES
		logval("gb", ((int)now.gb));
#endif
		;
		goto S_391_0;
S_391_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 24: // STATE 392 - group.pml:555 - [D_STEP555]
		if (!(((boq == -1 && (((int)now.stripe)==1))) || (boq == -1 /* else */)))
			continue;

		reached[0][392] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		if (TstOnly) return 1;


		reached[0][392] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		sv_save();
		S_390_0: /* 2 */
S_388_0: /* 2 */
S_385_0: /* 2 */
		if (!((((int)now.stripe)==1)))
			goto S_388_1;
S_386_0: /* 2 */
		now.stripe = 0;
#ifdef VAR_RANGES
		logval("stripe", ((int)now.stripe));
#endif
		;
		goto S_389_0;
S_388_1: /* 3 */
S_387_0: /* 2 */
		/* else */;
		goto S_389_0;
S_388_2: /* 3 */
		Uerror("blocking sel in d_step (nr.105, near line 339)");
S_389_0: /* 2 */
		goto S_393_0; /* '.' */
		goto S_393_0; /* ';' */
		goto S_393_0; /* ';' */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 25: // STATE 397 - group.pml:558 - [b = 0] (0:400:2 - 5)
		IfNotBlocked
		reached[0][397] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->b);
		((P0 *)_this)->b = 0;
#ifdef VAR_RANGES
		logval("Producer0:b", ((int)((P0 *)_this)->b));
#endif
		;
		/* merge: z = 0(400, 398, 400) */
		reached[0][398] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->z);
		((P0 *)_this)->z = 0;
#ifdef VAR_RANGES
		logval("Producer0:z", ((int)((P0 *)_this)->z));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 26: // STATE 400 - group.pml:593 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[0][400] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */
	case  _T5:	/* np_ */
		if (!((!(trpt->o_pm&4) && !(trpt->tau&128))))
			continue;
		/* else fall through */
	case  _T2:	/* true */
		_m = 3; goto P999;
#undef rand
	}

