# "darts in the circle, darts thrown": four times their ratio comes close to pi.
BEGIN {
    srand(seed)
    for (i = 0; i < 200000; i++) {
        x = rand()
        y = rand()
        if (x * x + y * y < 1) hits++
    }
    print hits, i
}
