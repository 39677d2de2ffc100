{ count[$1] += $2 }
END { for (word in count) print word, count[word] }
