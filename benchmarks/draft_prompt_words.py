"""What the prompts that the embedded draft learns from are put together from."""

from __future__ import annotations

LANGUAGES = ("Python",) * 6 + ("JavaScript",) * 2 + ("Java", "Go", "C", "C++", "TypeScript", "Ruby")
THINGS = (
    "a list of numbers", "a string", "a sorted array", "a dictionary of prices", "a matrix",
    "a linked list", "a binary tree", "a list of words", "a CSV file", "a JSON file",
    "a text file", "a list of dates", "a list of people with name and age", "a queue",
    "a set of integers", "a directory of files", "a log file", "a graph", "a deck of cards",
    "a list of students and marks", "a shopping cart", "a bank account", "an IP address",
    "an e-mail address", "a temperature in Celsius", "a sentence", "two strings", "two lists",
)  # fmt: skip
FUNCTIONS = (
    "returns the sum of all even numbers in {}", "checks whether {} is empty", "reverses {}",
    "finds the largest element of {}", "removes duplicates from {}", "sorts {}",
    "counts how often each element occurs in {}", "prints {} line by line",
    "converts {} to upper case", "merges {} with another one", "finds the average of {}",
    "checks whether {} is valid", "searches {} for a given value", "splits {} into two halves",
    "returns the second largest element of {}", "rotates {} by k places", "filters {}",
    "computes the length of {}", "reads {} and prints a summary", "copies {}",
    "groups the elements of {} by their first letter", "swaps the first and last element of {}",
    "finds the median of {}", "writes {} to a file", "compares {} with another one",
    "finds the most common element of {}", "checks whether {} is a palindrome",
)  # fmt: skip
PROGRAMS = (
    "computes the factorial of n", "checks whether a number is prime",
    "prints the Fibonacci series",
    "finds the greatest common divisor of two numbers", "converts Roman numerals to integers",
    "validates a password", "simulates a dice roll", "implements binary search",
    "implements bubble sort", "implements merge sort", "implements quicksort",
    "finds all permutations of a string", "counts vowels in a text",
    "checks for balanced brackets",
    "converts a decimal number to binary", "draws a triangle of stars",
    "solves a quadratic equation",
    "generates a random password", "plays rock, paper, scissors", "guesses a number",
    "downloads a web page", "sends an e-mail", "connects to a SQLite database",
    "retries a call with growing pauses", "caches the results of a function",
    "limits how often a function is called", "parses command line arguments",
    "computes the distance between two points", "finds the leap years between two years",
    "converts seconds into hours and minutes", "encrypts a text with the Caesar cipher",
    "checks whether two words are anagrams", "prints a multiplication table",
    "implements a stack", "implements a queue with two stacks", "traverses a tree in order",
    "finds the shortest path in a graph", "flattens a nested list", "computes compound interest",
)  # fmt: skip
TABLES = (
    "employees(id, name, salary, department_id)", "books(id, title, author, year, price)",
    "students(id, name, grade)", "products(id, name, category, price, stock)",
    "flights(id, origin, destination, departs_at)", "invoices(id, customer, amount, paid_on)",
    "movies(id, title, year, rating)", "patients(id, name, born_on, doctor_id)",
)  # fmt: skip
QUERIES = (
    "counts the rows of each group", "returns the five highest values", "finds all duplicates",
    "returns everything from the last month", "computes an average per category",
    "updates one row by its id", "deletes what is older than a year", "finds the missing values",
)  # fmt: skip
PAGES = (
    "a login form", "a table of three products", "a navigation bar", "a photo gallery",
    "a contact page", "a list of links", "a button that changes colour", "a footer",
    "a pricing page", "a blog post with a title and two paragraphs", "a progress bar",
)  # fmt: skip
SNIPPETS = (
    "def add(a, b):\n    return a - b", "for i in range(10)\n    print(i)",
    "def area(r):\n    return 3.14 * r",
    "def first(items):\n    if len(items) == 0:\n        return None\n    return items[1]",
    "numbers = [1, 2, 3]\ntotal = 0\nfor n in numbers:\n    total = n\nprint(total)",
    "def is_even(n):\n    return n % 2 == 1",
    "def greet(name):\n    print('Hello ' + nam)",
    "def largest(values):\n    best = 0\n    for value in values:\n        if value > best:\n"
    "            best = value\n    return best",
    "class Counter:\n    def __init__(self):\n        self.count = 0\n    def increment(self):\n"
    "        count += 1",
    "def count_words(text):\n    words = text.split()\n    counts = {}\n    for word in words:\n"
    "        counts[word] += 1\n    return counts",
    "function sum(list) {\n  let total = 0;\n  for (const x of list) {\n    total += x;\n  }\n"
    "  return total;\n}",
    "def read_lines(path):\n    file = open(path)\n    lines = file.readlines()\n    return lines",
    "def average(numbers):\n    total = 0\n    for number in numbers:\n        total += number\n"
    "    return total / len(numbers)",
    "def reverse(text):\n    result = ''\n    for letter in text:\n"
    "        result = letter + result\n    return result",
)  # fmt: skip
REPAIRS = (
    "Find the error in this code and fix it.", "Explain what this code does.",
    "Add a docstring and type hints to this code.", "Write a test for this code.",
    "Rewrite this code so that it is shorter.", "What is wrong here?",
    "Add comments to this code.", "Rename the variables so that they say what they hold.",
    "Handle errors in this code.", "Translate this code to JavaScript.",
)  # fmt: skip

FIRST = (
    "Anna", "Peter", "Lucia", "Omar", "Sofia", "David", "Emma", "Noah", "Yuki", "Ivan", "Clara",
    "Tom", "Aisha", "Marco", "Julia", "Ben", "Nina", "Carlos", "Helen", "Victor", "Rosa", "Paul",
)  # fmt: skip
LAST = (
    "Miller", "Garcia", "Smith", "Novak", "Okafor", "Rossi", "Tanaka", "Brown", "Meyer", "Lopez",
    "Khan", "Dubois", "Andersen", "Silva", "Walker", "Fischer", "Evans", "Moreau", "Costa",
    "Young",
)  # fmt: skip
CITIES = (
    "Berlin", "Madrid", "Toronto", "Lagos", "Osaka", "Chicago", "Vienna", "Oslo", "Porto", "Lima",
    "Dublin", "Krakow", "Boston", "Athens", "Seattle", "Geneva", "Nairobi", "Melbourne", "Prague",
)  # fmt: skip
COMPANIES = (
    "Bluewater Logistics", "Harbor Bank", "Greenfield Farms", "Atlas Software", "Maple Clinic",
    "Sunrise Bakery", "Northern Rail", "Copper & Sons", "Delta Insurance", "Silver Pines Hotel",
)  # fmt: skip
ROLES = (
    "engineer", "accountant", "nurse", "sales manager", "teacher", "designer", "driver",
    "data analyst", "chef", "project manager", "lawyer", "receptionist",
)  # fmt: skip
GOODS = (
    "lamps", "chairs", "notebooks", "bolts", "cables", "blankets", "cups", "pencils", "tiles",
    "towels", "batteries", "boxes of tea", "bags of cement", "bottles of ink", "light bulbs",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
FRUITS = (
    "apple", "banana", "cherry", "grape", "lemon", "mango", "orange", "peach", "pear", "plum",
    "carrot", "onion", "potato", "spinach", "tomato", "wheat", "rice", "barley", "oak", "maple",
    "dog", "cat", "horse", "eagle", "salmon", "iron", "copper", "silver", "red", "blue", "green",
)  # fmt: skip

SUBJECTS = (
    "sleep", "saving money", "learning a language", "public speaking", "gardening",
    "cooking pasta",
    "running a marathon", "time management", "houseplants", "job interviews", "stress", "chess",
    "climate change", "the solar system", "black holes", "vaccines", "the immune system",
    "the Roman Empire", "the Second World War", "inflation", "the stock market", "electricity",
    "magnets", "volcanoes", "earthquakes", "the human heart", "vitamins", "bees", "whales",
    "dinosaurs", "the Renaissance", "jazz", "photography", "drawing", "yoga", "meditation",
    "hiking", "travelling alone", "moving to a new city", "making friends", "raising a puppy",
    "recycling", "solar panels", "electric cars", "the internet", "passwords", "backups",
    "machine learning", "databases", "spreadsheets", "writing a CV", "negotiating a salary",
    "breakfast", "coffee", "bread", "vegetarian food", "first aid", "headaches", "back pain",
    "rainbows", "the seasons", "gravity", "evolution", "democracy", "taxes", "renting a flat",
)  # fmt: skip
QUESTIONS = (
    "What is the most important thing to know about {}?", "Explain {} to a ten-year-old.",
    "Give me five tips on {}.", "What are common mistakes people make about {}?",
    "I know nothing about {}. Where do I start?", "How does {} work?", "Why does {} matter?",
    "Write a short paragraph about {}.", "What are the pros and cons of {}?",
    "Can you recommend some books about {}?",
    "Summarise what is known about {} in three sentences.",
    "Tell me an interesting fact about {}.", "What questions should I ask about {}?",
    "How has {} changed over the last hundred years?", "Make a plan for a week to do with {}.",
    "My friend and I disagree about {}. How do we talk about it?", "Is {} good for me?",
    "Compare {} with something similar.", "Make a list of words to do with {}.",
)  # fmt: skip
ASKS = (
    "What is the capital of {country}?", "How do I get from {city} to {other}?",
    "Write an e-mail to my {role} to ask for a meeting on {day}.",
    "Write a thank-you note to {name}, who helped me move.",
    "What should I do in {city} in {month}?",
    "Plan a birthday party for {number} guests.", "Suggest a name for a {animal}.",
    "What is {a} times {b}?", "If a train goes {a} km in {b} hours, how fast is it?",
    "How do I say thank you in {tongue}?", "Translate to {tongue}: I would like a cup of tea.",
    "What can I cook with {food}, {food2} and {food3}?", "Who was {person}?",
    "Give me a recipe for {dish}.", "What is the difference between {food} and {food2}?",
    "Write a message that cancels my appointment on {day}.",
    "I feel tired all the time. What can I do?",
    "What is a good present for a {role}?",
    "How long does it take to learn to play the {instrument}?",
)  # fmt: skip
COUNTRIES = ("France", "Japan", "Brazil", "Canada", "Egypt", "India", "Kenya", "Norway", "Peru")
TONGUES = ("Spanish", "French", "German", "Italian", "Portuguese")
ANIMALS = ("cat", "dog", "horse", "parrot", "fox", "bear", "mouse", "owl", "rabbit", "turtle")
FOODS = ("rice", "eggs", "tomatoes", "lentils", "chicken", "spinach", "cheese", "potatoes", "beans")
DISHES = ("tomato soup", "pancakes", "vegetable curry", "apple pie", "omelette", "potato salad")
PERSONS = (
    "Marie Curie",
    "Isaac Newton",
    "Mozart",
    "Cleopatra",
    "Leonardo da Vinci",
    "Ada Lovelace",
)
INSTRUMENTS = ("piano", "guitar", "violin", "drums", "flute")

HEROES = (
    "a young wizard", "an old fisherman", "a lonely robot", "a curious girl named {name}",
    "a baker who cannot sleep", "two brothers", "a detective", "a talking {animal}",
    "a princess who hates dancing", "a boy who can see the future", "a retired pirate",
    "a gardener", "a lost astronaut", "a librarian", "a shy dragon", "a postman named {name}",
    "a street musician", "a queen without a country", "a clockmaker", "a girl and her {animal}",
)  # fmt: skip
PLACES = (
    "in a small village", "on a distant planet", "in a city under the sea", "in {city}",
    "in an old castle", "on a train at night", "in a forest in winter", "on a desert island",
    "in a school", "at the edge of the world", "in a haunted house", "in the mountains",
    "on a ship in a storm", "in a quiet library", "at a market", "in a garden at dawn",
)  # fmt: skip
EVENTS = (
    "who finds a map", "who loses something precious", "who meets a stranger",
    "who keeps a secret",
    "who must make a hard choice", "who learns to trust others", "who breaks a promise",
    "who discovers a hidden door", "who wants to go home", "who makes an unlikely friend",
    "who hears a strange sound at night", "who gets three wishes", "who saves the town",
    "who receives a letter without a name", "who has to tell the truth", "who builds a bridge",
)  # fmt: skip
FORMS = (
    "Write a short story about {hero} {place} {event}.", "Tell me a bedtime story about {hero}.",
    "Write the first paragraph of a novel about {hero} {event}.",
    "Write a poem about {hero} {place}.", "Write a fairy tale about {hero} {event}.",
    "Continue this story: Once upon a time there was {hero} {place}.",
    "Write a dialogue between {hero} and {hero2}.", "Write a scary story that happens {place}.",
    "Write a funny story about {hero} {event}.",
    "Write a story of 100 words about {hero} {place}.",
    "Write a letter from {hero} to {hero2}.", "Write a scene {place} with {hero} and {hero2}.",
    "Describe a morning {place}.", "Write a myth about how {animal}s came to be.",
    "Write a poem about {thing}.", "Write a haiku about {thing}.", "Write a song about {thing}.",
)  # fmt: skip
POETIC = ("the sea", "autumn", "hope", "the moon", "an old tree", "rain", "home", "time", "a river")
