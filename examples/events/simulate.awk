# Simulates events: each line of the input has an event's number and its seed. From the seed follow
# how many particles the event has, and the energy of each.
{
    srand($2)
    n = 1 + int(5 * rand())
    sum = 0
    for (i = 0; i < n; i++) sum += -20 * log(1 - rand())
    printf "%d %d %.3f\n", $1, n, sum
}
