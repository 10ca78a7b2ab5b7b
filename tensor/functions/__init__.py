"""The public functions, by the names of the array API standard and beyond; `tensor` offers them lazily."""
