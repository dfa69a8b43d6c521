"""What every room needs: array types, errors, argument checks, random streams, BLAS threads, words, the version."""
