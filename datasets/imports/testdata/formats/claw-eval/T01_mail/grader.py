class Grader: pass
